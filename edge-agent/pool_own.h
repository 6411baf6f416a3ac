/*
 * The inside of the pool service, for pool_*.c only.
 *
 *   pool_service.c  a request from its check to on_done
 *   pool_permits.c  the permits that go with an endpoint, in one step with it or apart
 *   pool_calls.c    what is asked of the script, gathered into one call a loop turn and pool
 *   pool_wait.c     who waits for an endpoint
 *   pool_events.c   what has changed, for the log and the topic
 *   pool_probes.c   endpoints in cooldown are tried out
 *   pool_watch.c    the five numbers, and what is known for metrics
 *   pool_json.c     what is known of a pool as JSON
 *   pool_trace.c    what is said of a request in its trace
 */
#pragma once

#include "agent.h"
#include "control/pool_def.h"
#include "core/timer_heap.h"
#include "pool_request.h"
#include "pool_service.h"

enum { POOL_FIRM_PLACES = 8, POOL_CALLS_IN_FLIGHT = 2, POOL_SESSION_RANDOM = 10 };

struct contacts;
struct pool_probing;

/* A pause that nothing but a new definition ends before its time: answered from memory. */
struct pool_firm {
	uint64_t key;                /* of tier and target */
	const struct pool_def *def;  /* compared only */
	uint64_t until_ms, retry_ms; /* loop ms; retry_ms 0: no time is known */
	enum pool_pause pause;
};

struct pool_line {
	struct pool_line *next;
	struct pool_service *service;
	char name[NAME_BYTES_MAX + 1];
	struct buf key;
	uint16_t slot;
	unsigned in_flight;
	struct pool_request *first, **last; /* to be asked, in order */
	uint64_t *undo;                     /* serials to be given back; owned */
	size_t n_undo, cap_undo;
	uint64_t *leave; /* those who waited and are gone; owned */
	size_t n_leave, cap_leave;
	struct pool_request *waiting, *last_waiting;
	struct timer_entry try; /* loop ms; when somebody who waits is asked again */
	bool woken;             /* something came back */
	struct pool_firm firm[POOL_FIRM_PLACES];
	struct pool_counts counts;
	struct pool_view view;
	uint64_t look_ms;     /* the owner's: loop ms of the next look */
	bool looking, looked; /* a look is wanted; it is on its way */
	uint64_t prober_ms;   /* the owner's: loop ms when it asks again whether it probes */
	bool asking_prober, asked_prober;
	bool probes_wait;                    /* more are due than there was room for */
	struct pool_probing *probes, *found; /* on their way; over, to be told; owned */
	unsigned n_probes;
	unsigned probes_asked;  /* their room is kept: calls on their way ask for them */
	uint64_t duplicates_of; /* hash of the definition whose duplicates were told */
};

struct pool_service {
	struct agent *agent;
	uv_check_t after_poll;
	uv_prepare_t before_poll;
	uv_timer_t timer; /* of those who wait */
	uv_timer_t watch; /* the owner's */
	unsigned handles_open;
	struct redis_store *store;
	struct pool_line *lines;
	struct timer_heap deadlines, tries;
	unsigned n_requests, calls;
	char prober[POOL_AGENT_BYTES];   /* unlike any other agent's */
	struct contacts *contacts;       /* the owner's; NULL: no probe yet */
	unsigned n_probes, probes_asked; /* of all lines */
	struct script_batch *permits;    /* owned; of the NEXT that is being written or read */
	uint64_t stamp;
	bool draining, closing;
};

/* ---- pool_service.c ---- */

/* The line of this name, made if need be; NULL: out of memory. */
struct pool_line *pool_line_of(struct pool_service *s, struct slice name);
struct pool_def *pool_line_def(const struct pool_line *l); /* in force; NULL: none */
void pool_request_fail(struct pool_request *r, enum pool_error error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void pool_request_done(struct pool_request *r);
/* A session's id that nobody uses: so many hexadecimal digits. */
void pool_session_random(struct pool_service *s, char ret_id[static POOL_SESSION_RANDOM + 1]);
/* What the script said of it; `said`: of its permits, if it was asked for them and one of them decided. */
void pool_request_given(struct pool_request *r, const struct pool_given *given,
			const struct script_answer *said, uint64_t now_us);
/* It has an endpoint, and all that goes with it. */
void pool_request_finish(struct pool_request *r);
/* What was given for it, if something was, is given back. */
void pool_request_give_up(struct pool_request *r);
/* Its answer says why there is no endpoint: it is told, or waited for, and asked again after `poll_ms`. */
void pool_request_pause(struct pool_request *r, uint64_t poll_ms);
/* The store can't be asked. */
void pool_request_outage(struct pool_request *r);
/* Answers with the pause that its answer has, `passed_ms` after it was told. */
void pool_request_paused(struct pool_request *r, uint64_t passed_ms);

/* ---- pool_permits.c ---- */

/* Something must be taken with an endpoint, by the definition that it has. */
bool pool_permits_needed(const struct pool_request *r);
/* What the script is to take with the endpoint that it gives; false: nothing, or that is to be taken apart. *ret_sent: the clocks now. */
bool pool_permits_ask(struct pool_request *r, struct pool_permits *permits,
		      struct clock_reading *ret_sent);
/*
 * Reads what NEXT answered, and hears what was said of permits of endpoints that were passed over; *ret_said: of the last one that was
 * tried. `sent` as pool_permits_ask() has set it. False: the reply is malformed.
 */
bool pool_permits_read(struct pool_request *r, struct pool_reply *reply,
		       const struct clock_reading *sent, struct pool_given *ret_given,
		       struct script_answer *ret_said);
/* Its permits were the last word: `said`. */
void pool_permits_answer(struct pool_request *r, const struct script_answer *said);
/* They were not taken, or nobody knows. Nothing, if it did not ask for them. */
void pool_permits_drop(struct pool_request *r);
/* It is asked once more, and they are taken apart. */
void pool_permits_apart(struct pool_request *r);
/* The endpoint is there: now they are taken. */
void pool_permits_take(struct pool_request *r);

/* ---- pool_calls.c ---- */

/* Asks the script at the end of this turn. */
void pool_line_ask(struct pool_line *l, struct pool_request *r);
void pool_line_undo(struct pool_line *l, uint64_t serial);
void pool_line_leave(struct pool_line *l, uint64_t waiter);
bool pool_calls_start(struct pool_service *s);
void pool_calls_stop(struct pool_service *s);
/* One of s->handles_open is closed. */
void pool_calls_handle_closed(struct pool_service *s);
/* The owner's look at the pool: its numbers when they are due, and what is known of it. */
void pool_line_look(struct pool_line *l);

/* ---- pool_wait.c ---- */

/* The request waits, to be asked again at r->try_ms. */
void pool_wait_join(struct pool_request *r);
void pool_wait_leave(struct pool_request *r);
/* It leaves without an endpoint: nobody is to wait for it. */
void pool_wait_give_up(struct pool_request *r);
/* Something came back: all of them are asked again in this turn. */
void pool_wait_wake(struct pool_line *l);
/* Before a newcomer: those who came earlier are asked first. */
void pool_wait_ask_first(struct pool_line *l);
void pool_wait_start(struct pool_service *s);

/* ---- pool_events.c ---- */

void pool_events_tell(struct pool_line *l, const struct pool_def *def, struct pool_reply *reply);
void pool_events_duplicates(struct pool_service *s, const struct pool_def *def);

/* ---- pool_probes.c ---- */

/* The owner's turn: has the script asked when that is due. */
void pool_probes_turn(struct pool_line *l, const struct pool_def *def);
/* Appends the operation by which it is asked, if it is to be; *ret_room probes have their room until it is answered. */
bool pool_probes_ask(struct pool_line *l, const struct pool_def *def, struct buf *program,
		     unsigned *ret_room);
/* Its answer, and that there is none. */
void pool_probes_due(struct pool_line *l, struct pool_def *def, unsigned room,
		     struct pool_reply *reply);
void pool_probes_unanswered(struct pool_line *l, unsigned room);
/* Appends what was found since, an operation each, and returns how many. */
unsigned pool_probes_tell(struct pool_line *l, const struct pool_def *def, struct buf *program);
/* The pool is gone, or its call failed. */
void pool_probes_forget(struct pool_line *l);
void pool_probes_stop(struct pool_service *s);

/* ---- pool_watch.c, pool_json.c ---- */

void pool_watch_start(struct pool_service *s);
/* The five numbers of a whole interval. */
void pool_watch_numbers(struct pool_line *l, const struct pool_def *def, struct pool_reply *reply,
			const struct pool_numbers *n, size_t n_endpoints);
void pool_watch_view(struct pool_line *l, const struct pool_def *def, struct pool_reply *reply);
/* Reads what SHOW answered and writes it as the contract's JSON. False: the reply is malformed. */
bool pool_json_show(const struct pool_def *def, struct pool_reply *reply, struct buf *out);
/* The members of the five numbers, without braces: `"share":{…},…`. */
void pool_json_numbers(const struct pool_def *def, const struct pool_numbers *n,
		       const uint64_t *tickets, struct buf *out);
