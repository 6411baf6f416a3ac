/*
 * Who watches the agent as it works: GET /v1/stream, server-sent events (docs/dashboard.md). While somebody does, the owner's
 * loop gathers the numbers of all loops once a second, writes them once, and hands the text to every viewer on his own loop.
 * While nobody does, nothing is computed.
 *
 *   idle ──a viewer joins──▶ every second: tour of the loops ──▶ text ──▶ tour of the loops: each viewer gets it
 *
 * Who has lost his token, or his certificate, by a reload is cut off before the next text; keys are for admins only.
 *
 * What a viewer has not taken yet keeps him from more: he is left out, and cut off after LIVE_SKIPS_MAX times in a row. As each
 * event tells the whole state, one left out is no loss.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct agent;
struct auth_token;
struct conn;
struct http_exchange;
struct live;

enum {
	LIVE_VIEWERS_MAX = 64, /* of all loops */
	LIVE_EVERY_MS = 1000,
	LIVE_SKIPS_MAX = 10,
	LIVE_EVENTS_MAX = 100, /* of events.h that are kept */
	LIVE_EVENTS_BYTES_MAX = 32 * 1024,
};

/* Of a viewer's loop; part of his call. All zeros: not joined. */
struct live_viewer {
	struct live_viewer *next, **prev; /* in the agent's list */
	struct http_exchange *exchange;
	struct conn *conn;
	unsigned skipped;               /* in a row */
	const struct auth_token *token; /* with which he was let in; NULL: none was needed */
};

/* For `owner` (borrowed), which has its loop. NULL: out of memory. */
struct live *live_new(struct agent *owner);
/* On the owner's loop, before its pools are closed: nothing is begun any more. What is on its way still comes home. */
void live_stop(struct live *l);
/* When no loop runs any more. NULL is nothing. */
void live_free(struct live *l);

/* On the loop of `a`. `v` has its exchange, which streams, and its connection. False: there are LIVE_VIEWERS_MAX. */
bool live_join(struct agent *a, struct live_viewer *v);
/* On the same loop. Nothing, if `v` did not join. */
void live_leave(struct agent *a, struct live_viewer *v);

/* Policies, overrides or pools have changed: viewers are told that there is news. On the owner's loop. */
void live_config_changed(struct live *l);

/*
 * An event of events.h (NULL is nothing) that this agent produced or saw: the last LIVE_EVENTS_MAX are shown to all viewers, without
 * the keys that are in `event`, which is changed. On the owner's loop. `l` NULL: there is no page.
 */
void live_happened(struct live *l, json_t *event);

struct live_counters {
	uint64_t viewers; /* now */
	uint64_t events;  /* computed */
	uint64_t skipped; /* that a viewer did not get, since he had not taken the last one */
	uint64_t cut_off; /* viewers that took none for too long */
	uint64_t refused; /* viewers beyond LIVE_VIEWERS_MAX */
};
/* From any thread. */
struct live_counters live_counters(const struct live *l);
