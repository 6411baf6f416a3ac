#include "script_rig.h"

#include <stdio.h>
#include <stdlib.h>

void script_rig_start(struct script_rig *r)
{
	*r = (struct script_rig){.batch = script_batch_new()};
	redis_server_start(&r->server, NULL);
	redis_client_connect(&r->client, r->server.socket_path);
}

void script_rig_stop(struct script_rig *r)
{
	redis_answer_release(&r->reply);
	redis_client_close(&r->client);
	redis_server_stop(&r->server);
	script_batch_free(r->batch);
}

static void fail(const char *what, const struct redis_answer *a)
{
	fprintf(stderr, "script_rig: %s: %c %.*s\n", what, a->type, (int)a->text.len,
		a->text.ptr == NULL ? "" : a->text.ptr);
	abort();
}

static bool is_noscript(const struct redis_answer *a)
{
	return a->type == '-' && a->text.len > 9 && memcmp(a->text.ptr, "-NOSCRIPT", 9) == 0;
}

void script_rig_run(struct script_rig *r, const struct script_op *op, uint32_t n,
		    struct script_answer *ret_answer)
{
	struct script_reader reader;

	script_batch_clear(r->batch);
	for (uint32_t i = 0; i < n; i++)
		if (script_batch_add(r->batch, &op[i], r->clock_us) != KOVA_OK)
			fail("add", &r->reply);
	redis_answer_release(&r->reply);
	r->nonce++;
	r->reply = redis_client_send(&r->client, script_batch_command(r->batch, false, r->nonce));
	if (is_noscript(&r->reply)) {
		redis_answer_release(&r->reply);
		r->reply = redis_client_send(&r->client, script_batch_command(r->batch, true, r->nonce));
	}
	if (r->reply.type != '$' || script_reader_init(&reader, r->reply.text, r->nonce, n) != KOVA_OK)
		fail("reply", &r->reply);
	for (uint32_t i = 0; i < n; i++)
		if (script_reader_next(&reader, &ret_answer[i]) != KOVA_OK)
			fail("answer", &r->reply);
	r->clock_us = reader.now_us;
}

struct script_answer script_rig_one(struct script_rig *r, enum script_op_kind kind, const struct limit *l,
				    const char *key, uint64_t cost)
{
	struct script_check check = {.limit = l, .key = slice_of(key), .cost = cost};
	struct script_op op = {.kind = kind, .checks = &check, .n_checks = 1};
	struct script_answer answer;

	script_rig_run(r, &op, 1, &answer);
	return answer;
}
