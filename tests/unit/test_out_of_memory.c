/*
 * Every allocation of the configuration and the control plane fails once, each in a run of its own: an error comes back,
 * nothing changes, nothing leaks. The program replaces malloc() (glibc manual, "Replacing malloc"), which sanitizers do as
 * well: under them it is skipped.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/control.h"
#include "edge_conf.h"
#include "failing_malloc.h"

#ifdef SANITIZED
int main(void)
{
	puts("SKIPPED: a sanitizer has replaced malloc()");
	return 77;
}
#else

#define CHECK(condition)                                                                          \
	do {                                                                                      \
		if (!(condition)) {                                                               \
			fprintf(stderr, "%s, allocation %ld: line %d: %s\n", step, nth, __LINE__, \
				#condition);                                                      \
			exit(1);                                                                  \
		}                                                                                 \
	} while (0)

static const char *step = "";
static long nth;
static char directory[] = "/tmp/kova-memory-XXXXXX", path[64];
static struct control *control;
static json_t *before, *after, *none, *one, *override, *pool, *endpoints, *patch;
static struct control_error error;

static kova_status load(void)
{
	struct edge_conf conf;
	struct buf errors = {0};
	kova_status status = edge_conf_load(path, &conf, &errors);

	if (status == KOVA_OK)
		edge_conf_release(&conf);
	buf_release(&errors);
	return status;
}

static kova_status start(void)
{
	struct control *c = control_new(directory, "node-1", (struct control_lacks){0},
					(struct rule_lists){before, none, NULL}, &error);

	control_free(c);
	return c != NULL ? KOVA_OK : KOVA_ENOMEM;
}

static int64_t limit_of(const char *name)
{
	const struct policy *p = catalogue_policy(control_catalogue(control), slice_of(name));

	return p != NULL ? (int64_t)p->levels[0].limit.limit : -1;
}

/* What is listed is whole: the library's own allocations failed as well. */
static void check_items(void)
{
	json_t *all = control_policies(control), *item;
	size_t i;

	CHECK(all != NULL);
	json_array_foreach(json_object_get(all, "policies"), i, item)
		CHECK(json_object_size(item) == 5);
	json_decref(all);
}

static kova_status put(void)
{
	return control_put_policy(control, SLICE("a"), one, "local", &error);
}

static kova_status put_override(void)
{
	return control_put_override(control, override, "local", &error);
}

static kova_status delete (void)
{
	return control_delete_policy(control, SLICE("b"), "local", &error);
}

static kova_status put_pool(void)
{
	return control_put_pool(control, SLICE("p"), pool, "local", &error);
}

static kova_status put_endpoints(void)
{
	return control_put_endpoints(control, SLICE("p"), endpoints, "local", &error);
}

static kova_status patch_endpoint(void)
{
	return control_patch_endpoint(control, SLICE("p"), SLICE("b"), patch, "local", &error);
}

/* Nothing that was said of the endpoint that stays is lost. */
static void check_endpoints(unsigned weight)
{
	const struct pool_def *def = catalogue_pool(control_catalogue(control), SLICE("p"));
	const struct pool_member *m = pool_def_member(def, SLICE("b"));

	CHECK(def->n_members == 2 && def->rule.window == 7);
	CHECK(m != NULL && m->weight == weight && m->tier == 2 && m->off);
}

static kova_status reload(void)
{
	return control_reload(control, (struct rule_lists){after, none, NULL}, &error);
}

/* Runs `work` with its first allocation failing, its second, … until it gets by without. */
static void each_allocation(const char *name, kova_status (*work)(void))
{
	step = name;
	for (nth = 0;; nth++) {
		struct catalogue *was = control != NULL ? control_catalogue(control) : NULL;
		long live_before = live;

		left = nth;
		kova_status status = work();
		bool failed = left < 0;

		left = -1;
		if (status == KOVA_OK && !failed)
			break;
		if (status == KOVA_OK) {
			printf("%s: does without allocation %ld\n", name, nth);
			if (control != NULL)
				check_items();
			continue; /* the next one then changes what has changed already */
		}
		CHECK(status == KOVA_ENOMEM || status == KOVA_ECONFIG || status == KOVA_EIO);
		CHECK(live == live_before);
		CHECK(control == NULL || control_catalogue(control) == was);
	}
	printf("%s: %ld allocations\n", name, nth);
	CHECK(nth > 3);
}

static void write_configuration(void)
{
	FILE *f = fopen(path, "w");

	fputs("{\"node\":\"n\",\"redis\":{\"mode\":\"cluster\",\"nodes\":[\"a:1\",\"b:2\"]},"
	      "\"policies\":["
	      "{\"name\":\"a\",\"limit\":1,\"per\":\"1s\"},{\"name\":\"t\",\"levels\":[{\"name\":"
	      "\"x\",\"limit\":1,"
	      "\"per\":\"1s\"},{\"name\":\"y\",\"limit\":1,\"per\":\"1s\"}]}],"
	      "\"overrides\":[{\"policy\":\"a\",\"prefix\":\"k\",\"limit\":3}]}",
	      f);
	fclose(f);
}

int main(void)
{
	char command[64];

	CHECK(mkdtemp(directory) != NULL);
	snprintf(path, sizeof path, "%s/agent.json", directory);
	write_configuration();
	before = json_loads(
		"[{\"name\":\"a\",\"limit\":1,\"per\":\"1s\"},{\"name\":\"b\",\"limit\":1,"
		"\"per\":\"1s\"}]",
		0, NULL);
	after = json_loads(
		"[{\"name\":\"a\",\"limit\":5,\"per\":\"1s\"},{\"name\":\"c\",\"limit\":1,"
		"\"per\":\"1s\"}]",
		0, NULL);
	none = json_array();
	one = json_loads("{\"limit\":3,\"per\":\"1s\"}", 0, NULL);
	override = json_loads("{\"policy\":\"a\",\"key\":\"k\",\"banned\":true}", 0, NULL);
	pool = json_loads(
		"{\"window\":7,\"endpoints\":[\"http://h:1\",{\"id\":\"b\",\"url\":\"http://"
		"h:2\",\"weight\":3,\"tier\":2,\"state\":\"disabled\"}]}",
		0, NULL);
	endpoints =
		json_loads("{\"endpoints\":[{\"url\":\"http://h:2\"},\"http://h:3\"]}", 0, NULL);
	patch = json_loads("{\"weight\":5}", 0, NULL);
	/* What is kept for the process's life is made first: counters of policies. */
	CHECK(load() == KOVA_OK);
	control_free(control_new(directory, "node-1", (struct control_lacks){0},
				 (struct rule_lists){after, none, NULL}, &error));
	control_free(control_new(directory, "node-1", (struct control_lacks){0},
				 (struct rule_lists){before, none, NULL}, &error));
	control_free(control_new(directory, "node-1", (struct control_lacks){0},
				 (struct rule_lists){after, none, NULL}, &error));
	each_allocation("load", load);
	each_allocation("start", start);
	control = control_new(directory, "node-1", (struct control_lacks){0},
			      (struct rule_lists){before, none, NULL}, &error);
	CHECK(control != NULL);
	each_allocation("put", put);
	CHECK(limit_of("a") == 3);
	each_allocation("put override", put_override);
	each_allocation("delete", delete);
	CHECK(limit_of("b") == -1);
	each_allocation("put pool", put_pool);
	each_allocation("put endpoints", put_endpoints);
	check_endpoints(3);
	each_allocation("patch endpoint", patch_endpoint);
	check_endpoints(5);
	each_allocation("reload", reload);
	CHECK(limit_of("a") == 5 && limit_of("c") == 1);
	control_free(control);
	snprintf(command, sizeof command, "rm -r %s", directory);
	return system(command) == 0 ? 0 : 1;
}
#endif
