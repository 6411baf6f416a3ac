/*
 * The story: open (connect, AUTH) -> send, receive, ... -> close. hiredis builds commands and
 * reads replies; waiting is done here with poll(), because hiredis's own time-out is one for each
 * read and leaves the context unusable, and `wait` must be able to look up while its reply is
 * still to come.
 */
#include "agent_resp.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "now.h"

struct agent_resp {
	redisContext *context; /* owned */
};

void agent_error_set(struct agent_error *e, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(e->text, sizeof e->text, format, list);
	va_end(list);
}

void resp_words_add(struct resp_words *w, const char *word)
{
	assert(w->n < RESP_WORDS_MAX);
	w->at[w->n] = word;
	w->len[w->n] = strlen(word);
	w->n++;
}

static const char *context_error(const redisContext *c)
{
	return c->err == REDIS_ERR_IO && errno != 0 ? strerror(errno) : c->errstr;
}

static redisContext *connect_to(const struct address *address)
{
	struct timeval timeout = {.tv_sec = RESP_TIMEOUT_MS / 1000};
	redisOptions options = {.connect_timeout = &timeout};

	if (address->is_unix)
		REDIS_OPTIONS_SET_UNIX(&options, address->path);
	else
		REDIS_OPTIONS_SET_TCP(&options, address->host, address->port);
	return redisConnectWithOptions(&options);
}

static kova_status authenticate(struct agent_resp *a, const char *token,
				struct agent_error *ret_error)
{
	struct resp_words words = {0};
	redisReply *reply;

	resp_words_add(&words, "AUTH");
	resp_words_add(&words, token);
	kova_status status = agent_resp_call(a, &words, RESP_TIMEOUT_MS, &reply, ret_error);
	if (status == KOVA_OK)
		freeReplyObject(reply);
	/* An agent without tokens calls AUTH an error: then the token is just not needed. */
	return status == KOVA_EREPLY ? KOVA_OK : status;
}

kova_status agent_resp_open(const struct address *address, const struct agent_tls *tls,
			    const char *token, struct agent_resp **ret_agent,
			    struct agent_error *ret_error)
{
	struct agent_resp *a = calloc(1, sizeof *a);

	if (a == NULL)
		return KOVA_ENOMEM;
	a->context = connect_to(address);
	if (a->context == NULL) {
		free(a);
		return KOVA_ENOMEM;
	}
	kova_status status = KOVA_OK;
	if (a->context->err != 0) {
		agent_error_set(ret_error, "%s", context_error(a->context));
		status = KOVA_ECONN;
	} else {
		if (!address->is_unix)
			redisEnableKeepAlive(a->context);
		if (address->tls)
			status = agent_tls_begin(tls, a->context, address->host, RESP_TIMEOUT_MS,
						 ret_error);
		if (status == KOVA_OK && token != NULL)
			status = authenticate(a, token, ret_error);
	}
	if (status != KOVA_OK) {
		agent_resp_close(a);
		return status;
	}
	*ret_agent = a;
	return KOVA_OK;
}

bool agent_resp_is_lost(kova_status status)
{
	return status == KOVA_ECONN || status == KOVA_ETIMEDOUT || status == KOVA_EPROTO;
}

void agent_resp_close(struct agent_resp *a)
{
	if (a == NULL)
		return;
	redisFree(a->context);
	free(a);
}

/* Milliseconds left until `end_us`, rounded up, for poll(). */
static int left_ms(uint64_t end_us)
{
	uint64_t now_us = now_monotonic_us();
	uint64_t left = end_us > now_us ? (end_us - now_us + 999) / 1000 : 0;

	return left > 60000 ? 60000 : (int)left;
}

static uint64_t end_after_ms(uint64_t ms)
{
	return now_monotonic_us() + ms * 1000;
}

/* KOVA_AGAIN: not ready by end_us. */
static kova_status wait_ready(const struct agent_resp *a, short events, uint64_t end_us,
			      struct agent_error *ret_error)
{
	struct pollfd p = {.fd = a->context->fd, .events = events};

	for (;;) {
		int left = left_ms(end_us);
		int n = poll(&p, 1, left);

		if (n > 0)
			return KOVA_OK;
		if (n < 0 && errno != EINTR) {
			agent_error_set(ret_error, "%s", strerror(errno));
			return KOVA_ECONN;
		}
		if (n == 0 && left == 0)
			return KOVA_AGAIN;
	}
}

static kova_status lost(const struct agent_resp *a, struct agent_error *ret_error)
{
	agent_error_set(ret_error, "%s", context_error(a->context));
	return a->context->err == REDIS_ERR_PROTOCOL ? KOVA_EPROTO : KOVA_ECONN;
}

kova_status agent_resp_send(struct agent_resp *a, const struct resp_words *words,
			    struct agent_error *ret_error)
{
	uint64_t end_us = end_after_ms(RESP_TIMEOUT_MS);
	const char *at[RESP_WORDS_MAX]; /* hiredis takes the list as one it might change */
	int done = 0;

	memcpy(at, words->at, sizeof at);
	if (redisAppendCommandArgv(a->context, words->n, at, words->len) != REDIS_OK)
		return lost(a, ret_error);
	while (done == 0) {
		kova_status status = wait_ready(a, POLLOUT, end_us, ret_error);
		if (status != KOVA_OK)
			return status == KOVA_AGAIN ? KOVA_ETIMEDOUT : status;
		if (redisBufferWrite(a->context, &done) != REDIS_OK)
			return lost(a, ret_error);
	}
	return KOVA_OK;
}

/* An error reply becomes a status; takes it then. */
static kova_status sort_reply(redisReply *reply, redisReply **ret_reply,
			      struct agent_error *ret_error)
{
	static const char *const auth[] = {"NOAUTH", "NOPERM", "WRONGPASS"};
	kova_status status = KOVA_EREPLY;

	if (reply->type != REDIS_REPLY_ERROR) {
		*ret_reply = reply;
		return KOVA_OK;
	}
	for (size_t i = 0; i < sizeof auth / sizeof auth[0]; i++)
		if (strncmp(reply->str, auth[i], strlen(auth[i])) == 0)
			status = KOVA_EAUTH;
	agent_error_set(ret_error, "%s", reply->str);
	freeReplyObject(reply);
	return status;
}

kova_status agent_resp_receive(struct agent_resp *a, uint64_t within_ms, redisReply **ret_reply,
			       struct agent_error *ret_error)
{
	uint64_t end_us = end_after_ms(within_ms);
	void *reply = NULL;

	for (;;) {
		if (redisGetReplyFromReader(a->context, &reply) != REDIS_OK)
			return lost(a, ret_error);
		if (reply != NULL)
			return sort_reply(reply, ret_reply, ret_error);
		kova_status status = wait_ready(a, POLLIN, end_us, ret_error);
		if (status != KOVA_OK)
			return status;
		if (redisBufferRead(a->context) != REDIS_OK)
			return lost(a, ret_error);
	}
}

kova_status agent_resp_call(struct agent_resp *a, const struct resp_words *words,
			    uint64_t within_ms, redisReply **ret_reply,
			    struct agent_error *ret_error)
{
	kova_status status = agent_resp_send(a, words, ret_error);

	if (status == KOVA_OK)
		status = agent_resp_receive(a, within_ms, ret_reply, ret_error);
	if (status == KOVA_AGAIN || status == KOVA_ETIMEDOUT) {
		agent_error_set(ret_error, "no answer within %llu ms",
				(unsigned long long)within_ms);
		return KOVA_ETIMEDOUT;
	}
	return status;
}
