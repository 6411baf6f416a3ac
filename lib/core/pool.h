/* What a pool of endpoints is: its rules, and those of each endpoint, as its owner has compiled them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bytes.h"

enum pool_kind { POOL_PROXY, POOL_KEY };
enum pool_select { POOL_ROUND_ROBIN, POOL_WEIGHTED, POOL_LEAST_LOADED };

enum {
	POOL_WINDOW_MAX = 32,
	POOL_TIER_MAX = 9,
	POOL_WEIGHT_MAX = 1000,
	POOL_SLOTS_MAX = 1000000,
	POOL_ENDPOINTS_MAX = 20000,
	POOL_TARGET_MAX = 1024,
	POOL_SESSION_MAX = 128,
	POOL_TICKET_MAX = 128,
};

/* Times in µs, below 2^53; shares from 0 to 1. */
struct pool_rule {
	enum pool_kind kind;
	enum pool_select select;
	uint8_t window, threshold;           /* 2..POOL_WINDOW_MAX; 2..window */
	uint8_t escalate_after, escalate_of; /* 1..of; 1..POOL_WINDOW_MAX */
	bool direct;                         /* no half-open after a cooldown */
	bool health;                         /* a cooldown ends only when a probe passed */
	bool exclusive;                      /* sessions have their endpoint to themselves */
	uint64_t base, max, trial, ramp, lease;
	uint64_t floor_active, floor_pause;
	uint64_t blame_within, blame_min, blame_hold;
	uint64_t escalate_hold, session_ttl, report, every;
	double jitter, blame_share, max_out;
};

struct pool_endpoint {
	struct slice id; /* of its state: 1..255 bytes, unique in the pool */
	struct slice
		account; /* of a key: members of one account share holds; empty: it has its own */
	double weight;   /* 0: nothing new but for its sessions */
	uint32_t slots;  /* 0: no bound */
	uint8_t tier;    /* 1..POOL_TIER_MAX */
	bool off;        /* disabled by the operator */
};

/* By which rules a provider's headers are read. */
enum pool_dialect {
	POOL_DIALECT_NONE,
	POOL_DIALECT_OPENAI,
	POOL_DIALECT_AZURE,
	POOL_DIALECT_GROQ,
	POOL_DIALECT_ANTHROPIC,
	POOL_DIALECT_GITHUB,
	POOL_DIALECT_DISCORD,
	POOL_DIALECT_REDDIT,
	POOL_DIALECT_TWITTER,
	POOL_DIALECT_IETF,
	POOL_DIALECT_2CAPTCHA,
};

enum pool_outcome {
	POOL_OK,
	POOL_REFUSED,
	POOL_AUTH,
	POOL_TUNNEL,
	POOL_TIMEOUT,
	POOL_TARGET,
	POOL_BLOCKED,
	POOL_CAPTCHA,
	POOL_EMPTY,
	POOL_CANCELLED,
	POOL_OUTCOMES
};

/* NUL-terminated names by enum pool_outcome, as requests spell them. */
extern const char *const pool_outcome_names[POOL_OUTCOMES];
/* False: it is none of them. Any case. */
bool pool_outcome_find(struct slice word, enum pool_outcome *ret_outcome);

/* Why no endpoint is given; POOL_OUTAGE never comes from the script. */
enum pool_pause {
	POOL_NOT_PAUSED,
	POOL_FLOOR,
	POOL_COOLING,
	POOL_SLOTS,
	POOL_HELD,
	POOL_NOTHING,
	POOL_LIMITED,
	POOL_OUTAGE,
	POOL_PAUSES
};

/* `floor` `cooling` `slots` `held` `empty` `limited` `outage`; "" of POOL_NOT_PAUSED. */
extern const char *const pool_pause_names[POOL_PAUSES];

/* A provider's word on what a key has left. */
struct pool_quota {
	char name[33]; /* NUL-terminated, not empty */
	int64_t limit; /* −1: not known */
	int64_t left;  /* −1: not known */
	bool absolute; /* reset_us is since the epoch, else from now */
	uint64_t reset_us;
};

enum { POOL_QUOTAS_MAX = 8 };

enum pool_event_kind {
	POOL_EVENT_COOLED = 1, /* endpoint, amount: µs, why: outcome, target */
	POOL_EVENT_RETURNED,   /* endpoint, target */
	POOL_EVENT_DISABLED,   /* endpoint */
	POOL_EVENT_PAUSED,     /* amount: µs, endpoint: how many are active or due for a trial */
	POOL_EVENT_RESUMED,
	POOL_EVENT_HELD,      /* amount: µs, target */
	POOL_EVENT_ESCALATED, /* amount: tier, target */
	POOL_EVENT_CAPPED,    /* endpoint, why: outcome, target */
	POOL_EVENT_EXTENDED,  /* of a hold: amount: µs from now, target */
};

enum { POOL_NO_ENDPOINT = 65535 };

struct pool_event {
	enum pool_event_kind kind;
	uint32_t endpoint; /* index; POOL_NO_ENDPOINT: none */
	uint64_t amount;
	uint8_t why;
	struct slice target; /* of the reply */
};
