/*
 * Happy path: waiting → (resolving) → connecting: TCP, TLS, AUTH, SELECT, ROLE, PING → up.
 * A failure on the way, a lost connection, redis_link_drop(): lost(), and connecting again after a
 * back-off. A command that is not answered in time, or an error like LOADING: probing, until a PING
 * is answered in time; an error like OOM, of which PING knows nothing: probing, until a write is; when nothing at all is heard for a while, the connection is dropped.
 *
 * Every command that hiredis accepted is a link_call. hiredis calls on_hiredis_reply() exactly once
 * for each, at the latest when it frees the context; that frees the call, and tells its owner
 * unless expire() did that before. hiredis lets go of a context by itself only through
 * on_detached(); we do through disconnect().
 */
#include "io/redis_link.h"

#include <assert.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backoff.h"
#include "io/redis_due.h"
#include "io/redis_guard.h"
#include "io/redis_probe.h"
#include "io/redis_resolve.h"
#include "io/redis_store.h"
#include "io/redis_tls.h"
#include "io/redis_uv.h"

enum {
	RETRY_MIN_MS = 50,
	RETRY_MAX_MS = 700, /* a server that is back is found within a second */
	PROBE_MAX_MS = 500,
	STABLE_MS =
		2000, /* up for so long: the next loss is a new trouble, not the same one again */
	SILENCE_MIN_MS = 1000, /* never drop a silent connection before */
	SILENCE_TIMEOUTS = 4,
	LATE_MS = 5,           /* a loop that finds a call so long overdue looks a second time */
	SECOND_LOOK_PART = 10, /* ... after this part of the time-out */
};

#define NEVER UINT64_MAX

enum link_state {
	LINK_WAITING,
	LINK_RESOLVING,
	LINK_CONNECTING,
	LINK_UP,
	LINK_PROBING,
	LINK_CLOSED
};

struct link_call {
	struct redis_due due; /* in link->waiting while nobody was told how it ended */
	struct redis_link *link;
	redis_link_reply *on_reply;
	void *data;
};

struct redis_link {
	struct redis_link_options options; /* strings owned */
	uv_loop_t *loop;
	uv_timer_t timer; /* the only one: see next_event() */
	uint64_t armed_ms;
	uv_idle_t turn; /* carries out redis_link_drop() */
	struct redis_resolve resolve;
	bool resolving;
	bool outdated;     /* … the name of another server than the one that is wanted now */
	unsigned resolved; /* how often: the next address of a name is tried each time */
	unsigned handles_open;

	enum link_state state;
	uint64_t
		at_ms; /* waiting: connect; connecting: give up; probing: send a PING; else NEVER */
	enum { NOT_YET, REPORTED_DOWN, REPORTED_UP } reported;
	struct backoff retry, patience; /* between attempts; between probes */
	bool hurry;                     /* lost on purpose: connect again at once */
	uint64_t up_since_ms;

	redisAsyncContext *ac; /* NULL: none, or hiredis is freeing it */
	struct redis_uv *uv;
	bool doomed; /* to be dropped in the next turn */
	bool probing;
	struct redis_probe probe;
	struct redis_guard guard; /* counts the replies */
	unsigned in_flight;       /* link_calls */
	uint64_t in_time_ms;      /* when a reply last came in time */
	uint64_t silent_ms;       /* nothing was heard since then, while something was asked */
	struct redis_due waiting; /* link_calls */
	uint64_t look_ms;         /* no call is given up before; 0: no second look is due */
	char why[256];

	void (*on_closed)(void *data);
	void *closed_data;
};

/* ---- small parts ---- */

static void link_handle_gone(struct redis_link *link)
{
	assert(link->handles_open > 0);
	if (--link->handles_open > 0)
		return;
	assert(link->state == LINK_CLOSED && link->in_flight == 0);
	void (*on_closed)(void *) = link->on_closed;
	void *data = link->closed_data;

	redis_link_options_release(&link->options);
	free(link);
	if (on_closed != NULL)
		on_closed(data);
}

static void on_handle_closed(uv_handle_t *handle)
{
	link_handle_gone(handle->data);
}

static void report(struct redis_link *link, bool up)
{
	if (link->reported == (up ? REPORTED_UP : REPORTED_DOWN))
		return;
	link->reported = up ? REPORTED_UP : REPORTED_DOWN;
	if (link->options.on_changed != NULL)
		link->options.on_changed(up, link->why, link->options.data);
}

static void say_why(struct redis_link *link, const char *why)
{
	if (why != link->why)
		snprintf(link->why, sizeof link->why, "%s", why);
}

/* ---- the timer ---- */

static void on_timer(uv_timer_t *timer);

static struct link_call *first_waiting(const struct redis_link *link)
{
	return (struct link_call *)(void *)redis_due_first(&link->waiting);
}

static uint64_t silence_limit_ms(const struct redis_link *link)
{
	uint64_t limit = link->options.timeout_ms * SILENCE_TIMEOUTS;

	return limit > SILENCE_MIN_MS ? limit : SILENCE_MIN_MS;
}

static uint64_t next_event(const struct redis_link *link)
{
	const struct link_call *call = first_waiting(link);
	uint64_t at = link->at_ms;

	if (call != NULL && call->due.deadline_ms < at)
		at = call->due.deadline_ms > link->look_ms ? call->due.deadline_ms : link->look_ms;
	if (link->state == LINK_PROBING && link->silent_ms + silence_limit_ms(link) < at)
		at = link->silent_ms + silence_limit_ms(link);
	return at;
}

static void arm_for(struct redis_link *link, uint64_t at)
{
	uint64_t now = uv_now(link->loop);

	if (at >= link->armed_ms)
		return; /* it fires early, does nothing and is armed anew: cheaper than exact */
	link->armed_ms = at;
	uv_timer_start(&link->timer, on_timer, at > now ? at - now : 0, 0);
}

static void arm(struct redis_link *link)
{
	if (link->state != LINK_CLOSED)
		arm_for(link, next_event(link));
}

static void wait_until(struct redis_link *link, uint64_t at_ms)
{
	link->at_ms = at_ms;
	arm(link);
}

/* ---- commands ---- */

/* Something arrived. */
static void heard(struct redis_link *link, bool in_time)
{
	uint64_t now = uv_now(link->loop);

	link->silent_ms = now;
	if (in_time)
		link->in_time_ms = now;
	else if (link->state == LINK_PROBING && !link->probing)
		wait_until(link, now); /* it lives again: ask at once */
}

static redis_link_reply on_probe;

/* A reply is another call's: one was lost on the way, and each that follows comes to the call before its own. A probe's
 * number is its deadline, which no two share; the commands' replies are for their owners to judge. */
static bool is_out_of_step(const struct link_call *call, const redisReply *reply)
{
	return redis_probe_is_astray(reply, call->on_reply == on_probe ? call->due.deadline_ms : 0);
}

static void on_hiredis_reply(redisAsyncContext *ac, void *reply_, void *data)
{
	struct link_call *call = data;
	struct redis_link *link = call->link;
	const redisReply *reply = reply_;
	bool waiting = redis_due_is_in(&call->due);
	kova_status status;

	link->in_flight--;
	if (waiting)
		redis_due_remove(&call->due);
	if (reply == NULL || ac != link->ac || link->doomed) {
		reply = NULL;
		status = link->state == LINK_CLOSED ? KOVA_ECLOSED : KOVA_ECONN;
	} else if (is_out_of_step(call, reply)) {
		redis_link_drop(link, "a reply was lost on the way");
		reply = NULL;
		status = KOVA_ECONN;
	} else {
		status = reply->type == REDIS_REPLY_ERROR ? KOVA_EREPLY : KOVA_OK;
		heard(link, waiting);
	}
	redis_link_reply *on_reply = waiting ? call->on_reply : NULL;
	void *reply_data = call->data;
	free(call);
	if (on_reply != NULL)
		on_reply(status, reply, reply_data);
}

static kova_status send_command(struct redis_link *link, struct slice command, uint64_t deadline_ms,
				redis_link_reply *on_reply, void *data)
{
	struct link_call *call = malloc(sizeof(*call));

	if (call == NULL)
		return KOVA_ENOMEM;
	*call = (struct link_call){
		.due.deadline_ms = deadline_ms, .link = link, .on_reply = on_reply, .data = data};
	if (redisAsyncFormattedCommand(link->ac, on_hiredis_reply, call, command.ptr,
				       command.len) != REDIS_OK) {
		free(call);
		return KOVA_ENOMEM;
	}
	if (link->in_flight++ == 0)
		link->silent_ms = uv_now(link->loop);
	link->guard.expected++;
	redis_due_add(&link->waiting, &call->due);
	arm_for(link, deadline_ms);
	return KOVA_OK;
}

/* `argv` ends with NULL */
static kova_status send_words(struct redis_link *link, const char *const *argv,
			      uint64_t deadline_ms, redis_link_reply *on_reply)
{
	const char *words[REDIS_PROBE_WORDS];
	char *command = NULL;
	int n = 0;

	while (argv[n] != NULL) {
		assert(n < REDIS_PROBE_WORDS);
		words[n] = argv[n];
		n++;
	}
	long long len = redisFormatCommandArgv(&command, n, words, NULL);
	if (len < 0)
		return KOVA_ENOMEM;
	kova_status status = send_command(link, (struct slice){command, (size_t)len}, deadline_ms,
					  on_reply, link);
	redisFreeCommand(command);
	return status;
}

/* ---- losing the connection ---- */

/* There is no connection (any more). */
static void lost(struct redis_link *link, const char *why)
{
	uint64_t now = uv_now(link->loop);

	if (link->state == LINK_UP || link->state == LINK_PROBING) {
		link->options.counters->disconnects++;
		if (now - link->up_since_ms >= STABLE_MS)
			backoff_reset(&link->retry);
	}
	link->state = LINK_WAITING;
	link->ac = NULL;
	link->uv = NULL;
	link->doomed = link->probing = false;
	link->probe = (struct redis_probe){0};
	link->look_ms = 0;
	say_why(link, why);
	wait_until(link, link->hurry ? now : now + backoff_next(&link->retry));
	link->hurry = false;
	report(link, false);
}

/*
 * Ends the connection ourselves; from a callback of hiredis the context is freed when that returns.
 */
static void disconnect(struct redis_link *link, const char *why)
{
	redisAsyncContext *ac = link->ac;

	lost(link, why);
	if (ac != NULL)
		redisAsyncFree(ac);
}

/*
 * Why hiredis gave up. With TLS 1.3 a refused client certificate shows only now, and a reset may
 * hide the alert.
 */
static void say_why_detached(struct redis_link *link)
{
	const char *tls = link->options.tls != NULL ? redis_tls_error() : NULL;
	const char *text = link->ac->errstr != NULL && link->ac->errstr[0] != '\0'
				   ? link->ac->errstr
				   : "connection lost";

	if (link->doomed)
		return; /* said already */
	if (link->guard.stray)
		say_why(link, "the server sent a reply that was not asked for");
	else if (tls != NULL)
		snprintf(link->why, sizeof link->why, "TLS: %s", tls);
	else if (link->options.tls != NULL && link->state == LINK_CONNECTING)
		snprintf(link->why, sizeof link->why,
			 "TLS: %s (is our certificate one that the server accepts?)", text);
	else
		say_why(link, text);
}

static void on_detached(void *data)
{
	struct redis_link *link = data;

	if (link->ac == NULL)
		return; /* it was us */
	say_why_detached(link);
	lost(link, link->why);
}

static void on_adapter_gone(void *data)
{
	link_handle_gone(data);
}

/* ---- logging in ---- */

static void enter_up(struct redis_link *link)
{
	uint64_t now = uv_now(link->loop);

	if (link->state == LINK_CONNECTING) {
		link->options.counters->connects++;
		link->up_since_ms = now;
	}
	link->state = LINK_UP;
	link->probe = (struct redis_probe){0};
	link->in_time_ms = link->silent_ms = now;
	link->at_ms = NEVER;
	say_why(link, "connected");
	report(link, true);
}

static void refuse(struct redis_link *link, const char *command, const redisReply *reply)
{
	snprintf(link->why, sizeof link->why, "%s: %s", command, reply->str);
	disconnect(link, link->why);
}

static void on_auth(kova_status status, const redisReply *reply, void *data)
{
	struct redis_link *link = data;

	if (status == KOVA_EREPLY && !link->options.auth_optional)
		refuse(link, "AUTH", reply);
}

static void on_select(kova_status status, const redisReply *reply, void *data)
{
	if (status == KOVA_EREPLY)
		refuse(data, "SELECT", reply);
}

/* ROLE may be forbidden or unknown to a proxy: then the first write tells. */
static void on_role(kova_status status, const redisReply *reply, void *data)
{
	if (status == KOVA_OK && reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
	    reply->element[0]->type == REDIS_REPLY_STRING &&
	    strcmp(reply->element[0]->str, "master") != 0)
		disconnect(data, "the server is a replica");
}

static void on_last(kova_status status, const redisReply *reply, void *data)
{
	struct redis_link *link = data;

	if (link->state != LINK_CONNECTING)
		return;
	if (redis_is_pong(status, reply))
		enter_up(link);
	else if (status == KOVA_EREPLY)
		refuse(link, "PING", reply);
}

/* The state's own time limit covers all of these. */
static kova_status log_in(struct redis_link *link)
{
	const struct redis_link_options *o = &link->options;
	kova_status status = KOVA_OK;
	char db[16];

	snprintf(db, sizeof db, "%u", (unsigned)o->db);
	if (o->password != NULL && o->user != NULL)
		status = send_words(link, (const char *[]){"AUTH", o->user, o->password, NULL},
				    NEVER, on_auth);
	else if (o->password != NULL)
		status = send_words(link, (const char *[]){"AUTH", o->password, NULL}, NEVER,
				    on_auth);
	if (status == KOVA_OK && o->db != 0)
		status = send_words(link, (const char *[]){"SELECT", db, NULL}, NEVER, on_select);
	if (status == KOVA_OK && o->want_master)
		status = send_words(link, (const char *[]){"ROLE", NULL}, NEVER, on_role);
	if (status == KOVA_OK)
		status = send_words(link, (const char *[]){"PING", NULL}, NEVER, on_last);
	return status;
}

/* ---- connecting ---- */

static void on_connected(const redisAsyncContext *ac, int status)
{
	struct redis_link *link = ac->data;

	if (ac != link->ac)
		return;
	if (status != REDIS_OK) {
		lost(link, ac->errstr != NULL && ac->errstr[0] != '\0' ? ac->errstr
								       : "could not connect");
		return; /* hiredis frees the context */
	}
	if (link->options.tls != NULL &&
	    !redis_tls_begin(link->options.tls, &link->ac->c, link->options.host)) {
		const char *why = redis_tls_error();
		disconnect(link, why != NULL ? why : "TLS could not begin");
	} else if (log_in(link) != KOVA_OK) {
		disconnect(link, "out of memory");
	}
}

/* Gives `ac` to the loop and to the link, or frees it. */
static void adopt(struct redis_link *link, redisAsyncContext *ac)
{
	const struct redis_uv_events events = {on_detached, on_adapter_gone, link};

	if (ac == NULL || ac->err != 0 ||
	    redis_uv_attach(link->loop, ac, &events, &link->uv) != KOVA_OK) {
		lost(link, ac != NULL && ac->err != 0 ? ac->errstr : "the socket can't be watched");
		redisAsyncFree(ac);
		return;
	}
	link->handles_open++;
	link->ac = ac;
	link->doomed = link->probing = false;
	ac->data = link;
	redis_guard_start(&link->guard, ac->c.reader);
	redisAsyncSetConnectCallback(ac, on_connected);
}

/*
 * `address`: numeric, so that hiredis does not go and ask a name server, which would stop the loop.
 */
static void connect_to(struct redis_link *link, const char *address)
{
	redisOptions options = {0};

	link->state = LINK_CONNECTING;
	if (link->options.path != NULL)
		REDIS_OPTIONS_SET_UNIX(&options, link->options.path);
	else
		REDIS_OPTIONS_SET_TCP(&options, address, link->options.port);
	adopt(link, redisAsyncConnectWithOptions(&options));
}

static void resolve(struct redis_link *link);

static void on_resolved(int status, const char *address, void *data)
{
	struct redis_link *link = data;
	bool outdated = link->outdated;

	link->resolving = link->outdated = false;
	if (link->state == LINK_RESOLVING && outdated)
		resolve(link);
	else if (link->state == LINK_RESOLVING && address != NULL)
		connect_to(link, address);
	else if (link->state == LINK_RESOLVING)
		lost(link, status != 0 ? uv_strerror(status) : "the name has no address");
	link_handle_gone(link);
}

static void resolve(struct redis_link *link)
{
	link->state = LINK_RESOLVING;
	if (link->resolving)
		return; /* of the last try; its answer is as good */
	int r = redis_resolve(&link->resolve, link->loop, link->options.host, link->resolved++,
			      on_resolved, link);
	if (r != 0) {
		lost(link, uv_strerror(r));
		return;
	}
	link->resolving = true;
	link->handles_open++;
}

static void start_connecting(struct redis_link *link)
{
	link->at_ms = uv_now(link->loop) + link->options.connect_timeout_ms;
	if (link->options.path != NULL || redis_is_address(link->options.host))
		connect_to(link, link->options.host);
	else
		resolve(link);
}

static void give_up_connecting(struct redis_link *link)
{
	snprintf(link->why, sizeof link->why, "no connection within %llu ms",
		 (unsigned long long)link->options.connect_timeout_ms);
	disconnect(link, link->why);
}

/* ---- time passes ---- */

static void on_probe(kova_status status, const redisReply *reply, void *data)
{
	struct redis_link *link = data;
	uint64_t now = uv_now(link->loop);

	if (link->state != LINK_PROBING)
		return;
	link->probing = false;
	switch (redis_probe_judge(&link->probe, status, reply, !link->options.want_master)) {
	case REDIS_PROBE_WELL:
		enter_up(link);
		break;
	case REDIS_PROBE_ASK_AGAIN:
		wait_until(link, now);
		break;
	case REDIS_PROBE_ILL:
		wait_until(link, now + backoff_next(&link->patience));
		break;
	}
}

static void probe(struct redis_link *link, uint64_t now)
{
	if (link->in_flight > 0 && now - link->silent_ms >= silence_limit_ms(link)) {
		snprintf(link->why, sizeof link->why, "nothing heard for %llu ms",
			 (unsigned long long)(now - link->silent_ms));
		disconnect(link, link->why);
	} else if (!link->probing && now >= link->at_ms) {
		uint64_t deadline_ms = now + link->options.timeout_ms;
		struct redis_probe_command command;

		link->at_ms = NEVER;
		link->probing = true;
		redis_probe_write(&link->probe, deadline_ms, &command);
		if (send_words(link, command.words, deadline_ms, on_probe) != KOVA_OK)
			on_probe(KOVA_ENOMEM, NULL, link);
	}
}

static void doubt(struct redis_link *link)
{
	uint64_t now = uv_now(link->loop);

	link->state = LINK_PROBING;
	link->silent_ms = now;
	backoff_reset(&link->patience);
	wait_until(link, now);
	report(link, false);
}

/*
 * Ends the calls whose time is up. The loop may have been late itself: what is there already counts, and then the server
 * may have had no time, or not even the call.
 */
static void expire(struct redis_link *link, uint64_t now)
{
	struct link_call *call = first_waiting(link);
	bool looked = link->look_ms != 0;

	if (link->look_ms > now)
		return;
	link->look_ms = 0;
	if (call == NULL || call->due.deadline_ms > now)
		return;
	redis_uv_flush(link->uv);
	redis_uv_drain(link->uv);
	call = first_waiting(link);
	if (!looked && call != NULL && call->due.deadline_ms < now - LATE_MS) {
		link->look_ms = now + link->options.timeout_ms / SECOND_LOOK_PART + 1;
		return;
	}
	while (link->state != LINK_CLOSED && (call = first_waiting(link)) != NULL &&
	       call->due.deadline_ms <= now) {
		redis_link_reply *on_reply = call->on_reply;
		void *data = call->data;

		redis_due_remove(
			&call->due); /* hiredis still has it; but it may be freed in doubt() */
		link->options.counters->timeouts++;
		if (link->state == LINK_UP &&
		    now - link->in_time_ms >= link->options.timeout_ms / 2) {
			snprintf(link->why, sizeof link->why, "no answer within %llu ms",
				 (unsigned long long)link->options.timeout_ms);
			doubt(link);
		}
		if (on_reply != NULL)
			on_reply(KOVA_ETIMEDOUT, NULL, data);
	}
}

static void on_timer(uv_timer_t *timer)
{
	struct redis_link *link = timer->data;
	uint64_t now = uv_now(link->loop);

	link->armed_ms = NEVER;
	if (link->uv != NULL)
		expire(link, now);
	if (link->state == LINK_WAITING && now >= link->at_ms)
		start_connecting(link);
	else if ((link->state == LINK_RESOLVING || link->state == LINK_CONNECTING) &&
		 now >= link->at_ms)
		give_up_connecting(link);
	else if (link->state == LINK_PROBING)
		probe(link, now);
	arm(link);
}

static void on_turn(uv_idle_t *turn)
{
	struct redis_link *link = turn->data;

	uv_idle_stop(turn);
	if (link->doomed)
		disconnect(link, link->why);
}

/* ---- the interface ---- */

static uint64_t random_seed(void)
{
	uint64_t seed;

	if (uv_random(NULL, NULL, &seed, sizeof seed, 0, NULL) != 0)
		seed = uv_hrtime();
	return seed;
}

struct redis_link *redis_link_new(uv_loop_t *loop, const struct redis_link_options *options)
{
	struct redis_link *link = calloc(1, sizeof(*link));

	assert((options->path != NULL) != (options->host != NULL));
	assert(options->timeout_ms > 0 && options->connect_timeout_ms > 0 &&
	       options->counters != NULL);
	if (link == NULL)
		return NULL;
	link->options = *options;
	if (!redis_link_options_own(&link->options)) {
		free(link);
		return NULL;
	}
	link->loop = loop;
	uv_timer_init(loop, &link->timer);
	uv_idle_init(loop, &link->turn);
	link->timer.data = link->turn.data = link;
	link->handles_open = 2;
	redis_due_init(&link->waiting);
	backoff_init(&link->retry, RETRY_MIN_MS, RETRY_MAX_MS, random_seed());
	backoff_init(&link->patience, RETRY_MIN_MS, PROBE_MAX_MS, random_seed());
	link->armed_ms = NEVER;
	wait_until(link, uv_now(loop));
	return link;
}

void redis_link_close(struct redis_link *link, void (*on_closed)(void *data), void *data)
{
	redisAsyncContext *ac = link->ac;

	assert(link->state != LINK_CLOSED);
	link->state = LINK_CLOSED;
	link->ac = NULL;
	link->on_closed = on_closed;
	link->closed_data = data;
	uv_close((uv_handle_t *)&link->timer, on_handle_closed);
	uv_close((uv_handle_t *)&link->turn, on_handle_closed);
	if (link->resolving)
		redis_resolve_cancel(&link->resolve); /* on_resolved() comes in any case */
	if (ac != NULL)
		redisAsyncFree(ac);
}

bool redis_link_up(const struct redis_link *link)
{
	return link->state == LINK_UP && !link->doomed;
}

kova_status redis_link_call(struct redis_link *link, struct slice command, uint64_t deadline_ms,
			    redis_link_reply *on_reply, void *data)
{
	if (!redis_link_up(link))
		return KOVA_ECONN;
	kova_status status = send_command(link, command, deadline_ms, on_reply, data);
	if (status == KOVA_OK)
		link->options.counters->commands++;
	return status;
}

void redis_link_flush(struct redis_link *link)
{
	if (link->ac != NULL)
		redis_uv_flush(link->uv);
}

void redis_link_drop(struct redis_link *link, const char *why)
{
	if (link->ac == NULL || link->doomed)
		return;
	link->doomed = true;
	say_why(link, why);
	uv_idle_start(&link->turn, on_turn);
}

void redis_link_doubt(struct redis_link *link, const char *why)
{
	if (!redis_link_up(link))
		return;
	say_why(link, why);
	doubt(link);
}

void redis_link_doubt_writes(struct redis_link *link, const char *why, uint16_t slot)
{
	if (!redis_link_up(link))
		return;
	link->probe = (struct redis_probe){.writes = true, .slot = slot};
	redis_link_doubt(link, why);
}

bool redis_link_retarget(struct redis_link *link, const char *host, uint16_t port)
{
	char *copy = strdup(host);

	assert(link->options.path == NULL && link->state != LINK_CLOSED);
	if (copy == NULL)
		return false;
	free((char *)link->options.host);
	link->options.host = copy;
	link->options.port = port;
	link->resolved = 0;
	link->outdated = link->resolving;
	backoff_reset(&link->retry);
	if (link->ac != NULL) {
		link->hurry = true;
		redis_link_drop(link, "the master is another server now");
	} else {
		link->state = LINK_WAITING;
		wait_until(link, uv_now(link->loop));
	}
	return true;
}
