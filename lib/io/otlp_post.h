/*
 * Messages to a collector by OTLP/HTTP: a POST at a time, on one connection that is kept. The environment's proxies don't
 * count. What a collector's answer means: https://opentelemetry.io/docs/specs/otlp/#otlphttp-response.
 */
#pragma once

#include <stdint.h>
#include <uv.h>

#include "core/bytes.h"

enum {
	OTLP_ANSWER_MAX = 65536, /* bytes of an answer that are read */
};

struct otlp_post;

struct otlp_target {
	const char *url;           /* http:// or https:// */
	const char *const *fields; /* "Name: value" each, NULL-terminated; secret */
	uint64_t timeout_ms;       /* from 1 on, for one POST */
};

enum otlp_end {
	OTLP_TAKEN,     /* status 200 to 299 */
	OTLP_TRY_AGAIN, /* not now: no connection, no answer in time, 429, 502, 503, 504 */
	OTLP_REFUSED,   /* any other answer: not a second time either */
};

struct otlp_answer {
	enum otlp_end end;
	unsigned status;         /* 0: there was no answer */
	bool has_retry_after;    /* of an OTLP_TRY_AGAIN */
	uint64_t retry_after_us; /* 0..RETRY_AFTER_MAX_US */
	struct slice body;       /* at most OTLP_ANSWER_MAX bytes of it; borrowed for the call */
};

/* `target` is copied. NULL: out of memory. */
struct otlp_post *otlp_post_new(uv_loop_t *loop, const struct otlp_target *target);
/* Ends what is on its way unheard; on_closed is called from the loop, and then it is gone. */
void otlp_post_close(struct otlp_post *p, void (*on_closed)(void *data), void *data);

/*
 * Sends `message` (of protobuf; borrowed until on_done). None may be on its way. on_done is called once, from the loop and never from
 * within, and may send the next. `timeout_ms`: of this one, if less than the target's. False: out of memory.
 */
bool otlp_post_send(struct otlp_post *p, struct slice message, uint64_t timeout_ms,
		    void (*on_done)(const struct otlp_answer *answer, void *data), void *data);
