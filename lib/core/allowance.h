/*
 * Allowances: what is leased of a key (docs/leases.md) for somebody who spends it elsewhere, and says only later how much it
 * was, as Envoy's rate limit quota filter does. Pure; times are µs of one steady clock of the agent.
 *
 * A lease is split into parts, one a client. A client's new part takes the place of the one before, of which the rest is
 * lost; but when it does so is not known here, nor of which part a reported request was. So what is reported counts as
 * spent of the oldest part first, and a lease counts as spent when all of its parts do: never too early. It goes back then;
 * any other ends by itself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	ALLOWANCE_PARTS_MAX = 8,  /* of a client, not reported as spent yet */
	ALLOWANCE_LEASES_MAX = 8, /* of a key at a time */
};

/* A message, in either direction, has arrived so long after it was written: a client stops this much before its lease ends. */
#define ALLOWANCE_DELIVERY_US UINT64_C(2000000)
/* A part is renewed so long before it ends. */
#define ALLOWANCE_RENEW_US UINT64_C(1500000)

struct allowance_part {
	uint64_t lease;   /* its id; 0: it is of none */
	uint64_t ends_us; /* of the lease: nothing is spent of it any more */
	uint32_t amount, spent;
};

/* A client's. All zeros: it has nothing. */
struct allowance {
	struct allowance_part
		part[ALLOWANCE_PARTS_MAX]; /* oldest first; the last is the one it spends of */
	unsigned n;
	uint64_t given_us,
		stops_us;     /* the last one: when, and when the client stops at the earliest */
	uint64_t reported_us; /* when it reported last; 0: never */
	uint64_t asked_us;    /* when it reported last that something was asked */
	uint64_t counted_us;  /* its demand is known up to here */
	uint64_t counting;    /* asked since */
	uint32_t rate;        /* asked a second */
};

/* What a report has settled: of each lease some more is spent. */
struct allowance_settled {
	unsigned n;
	struct {
		uint64_t lease;
		uint32_t amount;
	} of[ALLOWANCE_PARTS_MAX];
	uint64_t beyond; /* admitted without an allowance */
};

/* The client says that since its last report `allowed` and `denied` requests were asked of it. */
void allowance_report(struct allowance *a, uint64_t now_us, uint64_t allowed, uint64_t denied,
		      struct allowance_settled *ret_settled);
/*
 * How much the client needs now, for `ttl_us` of its demand and a tenth more: 1..most, or 0, while what it has will do or as
 * it has too much that it has not reported on.
 */
uint32_t allowance_want(const struct allowance *a, uint64_t now_us, uint64_t ttl_us, uint32_t most);
/* It is given `amount` of `lease` for `ttl_us`; allowance_want() was not 0. */
void allowance_give(struct allowance *a, uint64_t now_us, const struct allowance_part *part,
		    uint64_t ttl_us);
/* What it can still spend at most, as far as is known. */
uint64_t allowance_left(const struct allowance *a, uint64_t now_us);

/*
 * Splits `whole` (0..LIMIT_MAX) among n that want something each (at most LIMIT_MAX), in proportion, and none gets more than it wants. What is left of rounding
 * goes to those from `first` (below n) on, one each. The sum of ret_given is the lesser of the whole and what all want.
 */
void allowance_split(uint64_t whole, const uint32_t *want, unsigned n, unsigned first,
		     uint32_t *ret_given);

/* The leases of a key that have parts. All zeros: there are none. */
struct allowance_leases {
	struct allowance_lease {
		uint64_t id, ends_us;
		uint64_t amount, spent;
	} lease[ALLOWANCE_LEASES_MAX];
	unsigned n;
};

/* False: there are too many. */
bool allowance_leases_add(struct allowance_leases *l, uint64_t id, uint64_t amount,
			  uint64_t ends_us);
/* `amount` more of it is spent. True: now all of it is, and it is no longer here: it may go back. */
bool allowance_leases_spend(struct allowance_leases *l, uint64_t id, uint64_t amount);
/* Drops those that have ended by themselves. */
void allowance_leases_expire(struct allowance_leases *l, uint64_t now_us);
