/*
 * Reloads beside a loop that goes on answering and changing: a verdict sees the old policies or the new, never a mix.
 * A program of its own, without Criterion, so that it also runs under ThreadSanitizer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "control/control.h"

enum { POLICIES = 500, RELOADS = 30 };

struct run {
	uv_loop_t loop;
	uv_idle_t verdicts;
	struct control *control;
	unsigned reloads;
	uint64_t looked, changes;
};

/* POLICIES policies of one limit, one of them a calendar's with a zone that each reload sees anew. */
static json_t *policies(unsigned limit)
{
	static const char *const zones[] = {"Europe/Berlin", "Asia/Tokyo", "America/Havana",
					    "Africa/Cairo"};
	json_t *list = json_array();
	char name[16];

	for (int i = 0; i < POLICIES; i++) {
		snprintf(name, sizeof name, "p%d", i);
		json_array_append_new(list, json_pack("{s:s,s:i,s:s}", "name", name, "limit",
						      (int)limit, "per", "1s"));
	}
	json_array_append_new(list, json_pack("{s:s,s:s,s:i,s:s,s:s}", "name", "calendar",
					      "algorithm", "calendar", "limit", (int)limit, "per",
					      "day", "tz", zones[limit % 4]));
	return list;
}

/* What a verdict does: all policies that it looks up are of one load. */
static void on_verdicts(uv_idle_t *idle)
{
	struct run *run = idle->data;
	struct catalogue *c = catalogue_ref(control_catalogue(run->control));
	uint64_t limit = catalogue_policy(c, SLICE("p0"))->levels[0].limit.limit;
	char name[16];

	for (int i = 1; i < POLICIES; i += 7) {
		snprintf(name, sizeof name, "p%d", i);
		CHECK(catalogue_policy(c, slice_of(name))->levels[0].limit.limit == limit);
		run->looked++;
	}
	catalogue_unref(c);
	if (run->looked % 5000 == 0) {
		json_t *own = json_pack("{s:i,s:s}", "limit", 1, "per", "1s");
		struct control_error error;

		CHECK(control_put_policy(run->control, SLICE("own"), own, "local", &error) ==
		      KOVA_OK);
		json_decref(own);
		run->changes++;
	}
}

static void on_done(kova_status status, const struct control_error *error, void *data);

static void reload(struct run *run)
{
	json_t *list = policies(++run->reloads + 1), *none = json_array();

	control_reload_async(run->control, &run->loop, (struct rule_lists){list, none, NULL},
			     on_done, run);
	json_decref(list);
	json_decref(none);
}

static void on_done(kova_status status, const struct control_error *error, void *data)
{
	struct run *run = data;

	if (error != NULL)
		fprintf(stderr, "%s\n", error->text);
	CHECK(status == KOVA_OK);
	CHECK(catalogue_policy(control_catalogue(run->control), SLICE("p1"))
		      ->levels[0]
		      .limit.limit == run->reloads + 1);
	if (run->reloads < RELOADS)
		reload(run);
	else
		uv_close((uv_handle_t *)&run->verdicts, NULL);
}

int main(void)
{
	char directory[] = "/tmp/kova-threads-XXXXXX", command[64];
	struct control_error error = {""};
	struct run run = {0};
	json_t *list = policies(1), *none = json_array();

	CHECK(mkdtemp(directory) != NULL);
	run.control = control_new(directory, "node-1", (struct control_lacks){0},
				  (struct rule_lists){list, none, NULL}, &error);
	json_decref(list);
	json_decref(none);
	CHECK(run.control != NULL);
	CHECK(uv_loop_init(&run.loop) == 0);
	uv_idle_init(&run.loop, &run.verdicts);
	run.verdicts.data = &run;
	uv_idle_start(&run.verdicts, on_verdicts);
	reload(&run);
	uv_run(&run.loop, UV_RUN_DEFAULT);
	CHECK(uv_loop_close(&run.loop) == 0);
	control_free(run.control);
	snprintf(command, sizeof command, "rm -r %s", directory);
	CHECK(system(command) == 0);
	printf("%u reloads, %llu lookups, %llu changes meanwhile\n", run.reloads,
	       (unsigned long long)run.looked, (unsigned long long)run.changes);
	return 0;
}
