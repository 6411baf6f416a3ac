/* A control in a directory of its own, and short words for what is done with it. */
#pragma once

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "control/control.h"
#include "control/control_item.h"
#include "control/control_state.h"
#include "core/hlc.h"

static char directory[64], snapshot[96], journal[96];

static inline void setup(void)
{
	strcpy(directory, "/tmp/kova-control-XXXXXX");
	cr_assert_not_null(mkdtemp(directory));
	snprintf(snapshot, sizeof snapshot, "%s/control.json", directory);
	snprintf(journal, sizeof journal, "%s/control.journal", directory);
}

static inline void teardown(void)
{
	char command[96];

	snprintf(command, sizeof command, "rm -rf %s", directory);
	cr_assert_eq(system(command), 0);
}

#define LACKS ((struct control_lacks){0})

#define POLICY(name, limit) "{\"name\":\"" name "\",\"limit\":" #limit ",\"per\":\"1s\"}"

static inline struct control *try_start(const char *policies, const char *overrides,
					struct control_error *error)
{
	json_t *p = json_loads(policies, 0, NULL), *o = json_loads(overrides, 0, NULL);

	cr_assert(p != NULL && o != NULL);
	struct control *c =
		control_new(directory, "node-1", LACKS, (struct rule_lists){p, o, NULL}, error);

	json_decref(p);
	json_decref(o);
	return c;
}

static inline struct control *start(const char *policies, const char *overrides)
{
	struct control_error error = {""};
	struct control *c = try_start(policies, overrides, &error);

	cr_assert_not_null(c, "%s", error.text);
	return c;
}

static inline kova_status reload(struct control *c, const char *policies,
				 struct control_error *error)
{
	json_t *p = json_loads(policies, 0, NULL), *o = json_array();
	kova_status status = control_reload(c, (struct rule_lists){p, o, NULL}, error);

	json_decref(p);
	json_decref(o);
	return status;
}

static inline kova_status put(struct control *c, const char *name, const char *json,
			      struct control_error *error)
{
	json_t *policy = json_loads(json, JSON_DECODE_ANY, NULL);
	kova_status status = control_put_policy(c, slice_of(name), policy, "token:ops", error);

	json_decref(policy);
	return status;
}

static inline void put_ok(struct control *c, const char *name, const char *json)
{
	struct control_error error = {""};

	cr_assert_eq(put(c, name, json, &error), KOVA_OK, "%s", error.text);
}

static inline kova_status put_override(struct control *c, const char *json,
				       struct control_error *error)
{
	json_t *override = json_loads(json, 0, NULL);
	kova_status status = control_put_override(c, override, "token:ops", error);

	json_decref(override);
	return status;
}

/* The limit in force, −1 when there is no such policy. */
static inline int64_t limit_of(const struct control *c, const char *name)
{
	const struct policy *p = catalogue_policy(control_catalogue(c), slice_of(name));

	return p != NULL ? (int64_t)p->levels[0].limit.limit : -1;
}

/* A new reference to the listed policy or NULL. */
static inline json_t *listed(const struct control *c, const char *name)
{
	json_t *all = control_policies(c), *item, *found = NULL;
	size_t i;

	json_array_foreach(json_object_get(all, "policies"), i, item)
		if (strcmp(json_string_value(json_object_get(item, "name")), name) == 0)
			found = json_incref(item);
	json_decref(all);
	return found;
}

static inline json_int_t version_of(const struct control *c, const char *name)
{
	json_t *item = listed(c, name);
	json_int_t version = json_integer_value(json_object_get(item, "version"));

	json_decref(item);
	return version;
}

static inline bool who_is(const struct control *c, const char *name, const char *who)
{
	json_t *item = listed(c, name);
	bool is = item != NULL && strcmp(json_string_value(json_object_get(item, "who")), who) == 0;

	json_decref(item);
	return is;
}

static inline off_t size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_size : -1;
}
