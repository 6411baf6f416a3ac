/* What a coordinator publishes by gossip: from another thread to the loop, kept, and heard by another node. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coord_conf.h"
#include "coord_gossip.h"
#include "share.h"

enum { PATIENCE_MS = 20000, LOOK_MS = 10 };

static char directory[64];

static void setup(void)
{
	strcpy(directory, "/tmp/kova-coord-gossip-XXXXXX");
	cr_assert_not_null(mkdtemp(directory));
}

static void teardown(void)
{
	char command[96];

	snprintf(command, sizeof command, "rm -rf %s", directory);
	cr_assert_eq(system(command), 0);
}

TestSuite(coord_gossip, .init = setup, .fini = teardown, .timeout = 60);

struct node {
	struct coord_conf conf;
	struct coord_share share;
	unsigned changes;
};

static void on_change(void *data)
{
	((struct node *)data)->changes++;
}

static void node_start(struct node *n, uv_loop_t *loop, const char *name, const char *seed)
{
	char path[96], text[512];
	struct buf errors = {0};

	snprintf(path, sizeof path, "%s/%s.json", directory, name);
	snprintf(text, sizeof text,
		 "{\"node\":\"%s\",\"kafka\":{\"bootstrap\":\"127.0.0.1:1\"},\"state_dir\":\"%s\","
		 "\"gossip\":{\"listen\":\"127.0.0.1:0\",\"seeds\":[%s%s%s]}}",
		 name, name, seed != NULL ? "\"" : "", seed != NULL ? seed : "",
		 seed != NULL ? "\"" : "");
	FILE *file = fopen(path, "w");

	cr_assert(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
	*n = (struct node){0};
	cr_assert_eq(coord_conf_load(path, &n->conf, &errors), KOVA_OK, "%.*s", (int)errors.len,
		     errors.ptr);
	cr_assert_eq(mailbox_open(&n->share.box, loop), 0);
	coord_events_init(&n->share.events);
	/* Where the port of UDP is free that of TCP may not be. */
	for (int tries = 0; tries < 10 && n->share.gossip == NULL; tries++)
		n->share.gossip =
			coord_gossip_start(loop, &n->conf, &n->share.events, on_change, n, &errors);
	cr_assert_not_null(n->share.gossip, "%.*s", (int)errors.len, errors.ptr);
	buf_release(&errors);
}

static void node_stop(struct node *n)
{
	coord_gossip_close(n->share.gossip);
	mailbox_close(&n->share.box, NULL, NULL);
}

/* On the way to kova.events.v1. */
static bool has_told(struct node *n, const char *what)
{
	const struct slice told = buf_slice(&n->share.events.waiting);

	return memmem(told.ptr, told.len, what, strlen(what)) != NULL;
}

/* What the node has on its disk. */
static bool has_kept(const char *name, const char *what)
{
	char path[96], text[4096];

	snprintf(path, sizeof path, "%s/%s/control.journal", directory, name);
	FILE *file = fopen(path, "r");
	size_t len = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;

	if (file != NULL)
		fclose(file);
	text[len] = '\0';
	return strstr(text, what) != NULL;
}

static void on_look(uv_timer_t *timer)
{
	(void)timer;
}

static void wait_until_kept(uv_loop_t *loop, const char *name, const char *what)
{
	uint64_t end_ms = uv_hrtime() / 1000000 + PATIENCE_MS;

	while (!has_kept(name, what) && uv_hrtime() / 1000000 < end_ms)
		uv_run(loop, UV_RUN_ONCE);
	cr_assert(has_kept(name, what), "%s has no %s", name, what);
}

static const char weights[] = "{\"policy\":\"p\",\"parent\":\"a\",\"weights\":{\"x\":3,\"y\":5}}";

static void publish(void *share)
{
	coord_publish_weights(share,
			      SLICE("{\"policy\":\"p\",\"parent\":\"a\",\"weights\":{\"x\":0}}"));
	coord_publish_weights(share, SLICE("not JSON"));
	coord_publish_weights(share, slice_of(weights));
}

Test(coord_gossip, what_is_published_is_kept_and_spread)
{
	uv_loop_t loop;
	struct node a, b;
	uv_thread_t thread;
	uv_timer_t look;

	cr_assert_eq(uv_loop_init(&loop), 0);
	uv_timer_init(&loop, &look);
	uv_timer_start(&look, on_look, LOOK_MS, LOOK_MS);
	node_start(&a, &loop, "a", NULL);
	node_start(&b, &loop, "b", gossip_service_address(coord_gossip_service(a.share.gossip)));
	cr_assert_eq(uv_thread_create(&thread, publish, &a.share), 0);
	uv_thread_join(&thread);
	wait_until_kept(&loop, "a",
			"\"who\":\"coordinator\",\"node\":\"a\",\"item\":{\"parent\":\"a\"");
	wait_until_kept(&loop, "b", "\"weights\":{\"x\":3,\"y\":5}");
	cr_expect(a.changes == 1 && b.changes == 1, "%u, %u: each is told once", a.changes,
		  b.changes);
	cr_expect(has_told(&a, "\"node\":\"a\",\"hlc\":") && has_told(&a, "\"member\":\"b\"}"));
	cr_expect(has_told(&b, "\"event\":\"member_joined\"") && has_told(&b, "\"member\":\"a\"}"));
	cr_expect(has_told(&a, "\"kind\":\"weights\""));
	cr_expect(has_told(&a, "\"who\":\"coordinator\""));
	cr_expect_not(has_told(&b, "config_changed"), "it was made elsewhere");
	node_stop(&a);
	node_stop(&b);
	uv_close((uv_handle_t *)&look, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	cr_expect_eq(uv_loop_close(&loop), 0);
	coord_conf_release(&a.conf);
	coord_conf_release(&b.conf);
	coord_events_release(&a.share.events);
	coord_events_release(&b.share.events);
}

Test(coord_gossip, without_gossip_nothing_is_published)
{
	struct coord_share share = {0};

	coord_publish_weights(&share, slice_of(weights));
}
