#include "store_rig.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"

#define MS UINT64_C(1000000)

static void fail(const char *what, const char *detail)
{
	fprintf(stderr, "store_rig: %s: %s\n", what, detail);
	abort();
}

/* ns that this thread has waited for a processor so far; 0 where the kernel doesn't say. */
static uint64_t queued_ns(void)
{
	FILE *f = fopen("/proc/thread-self/schedstat", "re");
	uint64_t ran = 0, queued = 0;

	if (f == NULL)
		return 0;
	if (fscanf(f, "%" SCNu64 " %" SCNu64, &ran, &queued) != 2)
		queued = 0;
	fclose(f);
	return queued;
}

struct pending {
	struct store_rig *rig;
	size_t call;
};

static void on_reply(kova_status status, const struct redisReply *reply, void *data)
{
	struct pending pending = *(struct pending *)data;
	struct rig_call *call = &pending.rig->calls[pending.call];

	free(data);
	call->ended++;
	call->status = status;
	call->ended_ns = uv_hrtime();
	call->queued_ns = queued_ns() - call->queued_ns;
	if ((reply != NULL) != (status == KOVA_OK || status == KOVA_EREPLY))
		fail("a reply comes with KOVA_OK and KOVA_EREPLY only", kova_status_text(status));
	if (reply != NULL && reply->str != NULL)
		snprintf(call->text, sizeof call->text, "%s", reply->str);
	else if (reply != NULL && reply->type == REDIS_REPLY_INTEGER)
		snprintf(call->text, sizeof call->text, "%lld", reply->integer);
	if (pending.rig->on_event != NULL)
		pending.rig->on_event(pending.rig);
}

static void on_changed(unsigned shard, bool up, const char *why, void *data)
{
	struct store_rig *rig = data;

	(void)shard;
	if (up)
		rig->ups++;
	else
		rig->downs++;
	snprintf(rig->why, sizeof rig->why, "%s", why);
	if (rig->on_event != NULL)
		rig->on_event(rig);
}

void rig_init(struct store_rig *rig)
{
	signal(SIGPIPE, SIG_IGN);
	*rig = (struct store_rig){0};
	uv_loop_init(&rig->loop);
	rig->calls = calloc(RIG_CALLS_MAX, sizeof *rig->calls);
	if (rig->calls == NULL)
		fail("calloc", "out of memory");
}

void rig_open(struct store_rig *rig, const struct redis_conf *conf)
{
	uv_update_time(&rig->loop);
	rig->store = redis_store_new(&rig->loop, conf, on_changed, rig);
	if (rig->store == NULL)
		fail("redis_store_new", conf->url != NULL ? conf->url : "");
}

static void on_closed(void *data)
{
	((struct store_rig *)data)->closed = true;
}

void rig_end(struct store_rig *rig)
{
	char text[64];

	if (rig->store != NULL)
		redis_store_close(rig->store, on_closed, rig);
	bool was_open = rig->store != NULL;
	rig->store = NULL;
	uv_run(&rig->loop, UV_RUN_DEFAULT);
	if (was_open && !rig->closed)
		fail("on_closed", "did not come");
	if (uv_loop_close(&rig->loop) != 0)
		fail("uv_loop_close", "handles are left");
	for (size_t i = 0; i < rig->n_calls; i++) {
		if (rig->calls[i].ended == 1)
			continue;
		snprintf(text, sizeof text, "call %zu ended %u times", i, rig->calls[i].ended);
		fail("exactly once", text);
	}
	free(rig->calls);
}

static void command_write(struct buf *out, char *words)
{
	struct buf body = {0};
	unsigned n = 0;

	for (char *rest = words, *word; (word = strsep(&rest, " ")) != NULL; n++)
		buf_printf(&body, "$%zu\r\n%s\r\n", strlen(word), word);
	buf_printf(out, "*%u\r\n", n);
	buf_add_slice(out, buf_slice(&body));
	buf_release(&body);
}

size_t rig_ask(struct store_rig *rig, uint16_t slot, const char *format, ...)
{
	struct pending *pending = malloc(sizeof(*pending));
	struct buf command = {0};
	char words[512];
	va_list args;

	va_start(args, format);
	vsnprintf(words, sizeof words, format, args);
	va_end(args);
	if (pending == NULL || rig->n_calls == RIG_CALLS_MAX)
		fail("rig_ask", "too many calls");
	command_write(&command, words);
	*pending = (struct pending){rig, rig->n_calls++};
	size_t call = pending->call;
	rig->calls[call].queued_ns = queued_ns();
	rig->calls[call].begun_ns = uv_hrtime();
	redis_store_call(rig->store, slot, buf_slice(&command), on_reply, pending);
	buf_release(&command);
	if (rig->calls[call].ended != 0)
		fail("redis_store_call", "called back from within");
	return call;
}

static void on_tick(uv_timer_t *timer)
{
	(void)timer;
}

/* Runs until `done` says so; false: it was too long. */
static bool run_until(struct store_rig *rig, bool (*done)(struct store_rig *, size_t, bool),
		      size_t what, bool want, uint64_t patience_ms)
{
	uint64_t until = uv_hrtime() + patience_ms * MS;
	uv_timer_t tick;

	uv_timer_init(&rig->loop, &tick);
	uv_timer_start(&tick, on_tick, 1, 1);
	bool well = done != NULL && done(rig, what, want);
	while (!well && uv_hrtime() < until) {
		uv_run(&rig->loop, UV_RUN_ONCE);
		well = done != NULL && done(rig, what, want);
	}
	uv_close((uv_handle_t *)&tick, NULL);
	uv_run(&rig->loop, UV_RUN_NOWAIT);
	return well;
}

void rig_run(struct store_rig *rig, uint64_t ms)
{
	run_until(rig, NULL, 0, false, ms);
}

static bool call_ended(struct store_rig *rig, size_t call, bool want)
{
	(void)want;
	return rig->calls[call].ended > 0;
}

const struct rig_call *rig_wait(struct store_rig *rig, size_t call)
{
	if (!run_until(rig, call_ended, call, true, 10000))
		fail("rig_wait", "the call did not end");
	return &rig->calls[call];
}

static bool shard_is(struct store_rig *rig, size_t slot, bool want)
{
	return redis_store_up(rig->store, redis_store_shard(rig->store, (uint16_t)slot)) == want;
}

void rig_wait_up(struct store_rig *rig, uint16_t slot, bool up, uint64_t patience_ms)
{
	if (!run_until(rig, shard_is, slot, up, patience_ms))
		fail(up ? "not up in time" : "not down in time", rig->why);
}

double rig_took_ms(const struct rig_call *call)
{
	return (double)(call->ended_ns - call->begun_ns) / 1e6;
}

double rig_own_ms(const struct rig_call *call)
{
	return rig_took_ms(call) - (double)call->queued_ns / 1e6;
}
