/*
 * Permits of a key for somebody who spends them elsewhere: leased from the region, as leases.h does for decisions here, and
 * settled by what is said of them later. docs/leases.md has the rules.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "request.h"

struct allot;

/* At least so long is each lease; less, and little is left once a client has heard of it. */
#define ALLOT_TTL_MIN_US UINT64_C(3500000)
#define ALLOT_TTL_US UINT64_C(10000000)

enum allotted_kind {
	ALLOTTED_NONE, /* there is nothing to give: ask again after wait_us */
	ALLOTTED_SOME, /* `amount`, until ends_us at the latest */
	ALLOTTED_ALL,  /* nothing limits the keys */
	ALLOTTED_NEVER, /* by their policies nothing can be leased of them, and so nothing is given */
};

struct allotted {
	enum allotted_kind kind;
	bool is_outage;  /* by `on_outage`: for a short time */
	uint64_t amount; /* 1..LIMIT_MAX */
	uint64_t lease;  /* its name, for allot_return(); 0: nothing was leased */
	uint64_t ends_us;
	uint64_t wait_us;
};

/* What is asked for; the pairs' costs are not looked at. */
struct allot_wish {
	const struct request_pair *pairs; /* borrowed */
	uint8_t n_pairs;
	uint64_t amount;  /* 1..LIMIT_MAX */
	uint64_t sent_us; /* the steady clock that ends_us will be of, read just now */
};

/*
 * Asks for it. on_allotted comes once, from within or later; until then *asking is what allot_abandon() takes, and NULL again
 * before it comes. False: out of memory, it never comes.
 */
bool allot_ask(struct engine *e, const struct allot_wish *wish,
	       void (*on_allotted)(void *data, const struct allotted *said), void *data,
	       struct allot **asking);
/* Nobody waits for it any more: what is allotted goes back. */
void allot_abandon(struct allot **asking);

/* All of the lease was spent, or, of `left`, never handed out: it goes back. */
void allot_return(struct engine *e, const struct request_pair *pairs, uint8_t n_pairs,
		  uint64_t lease, uint64_t left);
/* `amount` was admitted that was never allotted: it is taken as far as it is there. */
void allot_charge(struct engine *e, const struct request_pair *pairs, uint8_t n_pairs,
		  uint64_t amount);
/* Counts what became of requests for each pair. */
void allot_count(struct engine *e, const struct request_pair *pairs, uint8_t n_pairs,
		 uint64_t admitted, uint64_t refused);

/* What a full limit of the keys holds at least, divided by the loops of all agents; 0: nothing can be leased. */
uint64_t allot_part(struct engine *e, const struct request_pair *pairs, uint8_t n_pairs);
