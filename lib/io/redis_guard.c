#include "io/redis_guard.h"

#include <hiredis/hiredis.h>

enum {
	REPLY_ELEMENTS_MAX = 1 << 18
}; /* of one array; the largest that we ask for is CLUSTER SLOTS */

static bool is_expected(const redisReadTask *task)
{
	struct redis_guard *guard = task->privdata;

	if (task->parent != NULL)
		return true; /* a part of one that was looked at before */
	guard->stray = guard->expected == 0;
	guard->expected -= !guard->stray;
	return !guard->stray;
}

static const struct redisReplyObjectFunctions *functions_of(const redisReadTask *task)
{
	return ((struct redis_guard *)task->privdata)->functions;
}

static void *create_string(const redisReadTask *task, char *str, size_t len)
{
	return is_expected(task) ? functions_of(task)->createString(task, str, len) : NULL;
}

static void *create_array(const redisReadTask *task, size_t elements)
{
	return is_expected(task) ? functions_of(task)->createArray(task, elements) : NULL;
}

static void *create_integer(const redisReadTask *task, long long value)
{
	return is_expected(task) ? functions_of(task)->createInteger(task, value) : NULL;
}

static void *create_double(const redisReadTask *task, double value, char *str, size_t len)
{
	return is_expected(task) ? functions_of(task)->createDouble(task, value, str, len) : NULL;
}

static void *create_nil(const redisReadTask *task)
{
	return is_expected(task) ? functions_of(task)->createNil(task) : NULL;
}

static void *create_bool(const redisReadTask *task, int value)
{
	return is_expected(task) ? functions_of(task)->createBool(task, value) : NULL;
}

void redis_guard_start(struct redis_guard *guard, struct redisReader *reader)
{
	static redisReplyObjectFunctions guarded = {
		.createString = create_string,
		.createArray = create_array,
		.createInteger = create_integer,
		.createDouble = create_double,
		.createNil = create_nil,
		.createBool = create_bool,
		.freeObject = freeReplyObject,
	};

	*guard = (struct redis_guard){.functions = reader->fn};
	reader->fn = &guarded;
	reader->privdata = guard;
	reader->maxelements = REPLY_ELEMENTS_MAX;
}
