/* Another list of endpoints for a pool (control/pool_def.h): what stays of those that stay. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "control/pool_def.h"

static void expect(const char *was, const char *list, bool is_key, const char *expected)
{
	json_t *before = json_loads(was, 0, NULL), *given = json_loads(list, 0, NULL);
	json_t *wanted = json_loads(expected, 0, NULL);
	json_t *merged = pool_endpoints_merge(before, given, is_key);
	char *text = json_dumps(merged, 0);

	cr_assert(before != NULL && given != NULL && wanted != NULL && merged != NULL);
	cr_expect(json_equal(merged, wanted), "%s with %s: %s", was, list, text);
	free(text);
	json_decref(before);
	json_decref(given);
	json_decref(wanted);
	json_decref(merged);
}

Test(pool_endpoints, an_address_that_stays_keeps_what_is_said_of_it)
{
	expect("[{\"id\":\"a\",\"url\":\"http://h:1\",\"weight\":3,\"state\":\"disabled\"},"
	       " {\"id\":\"b\",\"url\":\"http://h:2\"}, \"http://h:3\"]",
	       "[\"http://h:4\", \"http://h:3\", \"http://h:1\"]", false,
	       "[\"http://h:4\", \"http://h:3\","
	       " {\"id\":\"a\",\"url\":\"http://h:1\",\"weight\":3,\"state\":\"disabled\"}]");
}

Test(pool_endpoints, what_the_list_says_counts)
{
	expect("[{\"id\":\"a\",\"url\":\"http://h:1\",\"weight\":3,\"tier\":2}, \"http://h:2\"]",
	       "[{\"url\":\"http://h:1\",\"weight\":5}, {\"url\":\"http://h:2\",\"id\":\"b\"}]",
	       false,
	       "[{\"id\":\"a\",\"url\":\"http://h:1\",\"weight\":5,\"tier\":2},"
	       " {\"id\":\"b\",\"url\":\"http://h:2\"}]");
}

Test(pool_endpoints, addresses_are_compared_as_everywhere)
{
	expect("[{\"id\":\"a\",\"url\":\"http://u:p%40@Host:1\"}]",
	       "[\"HTTP://u:%70%40@host:1\", \"http://u:P%40@host:1\", \"https://u:p%40@host:1\"]",
	       false,
	       "[{\"id\":\"a\",\"url\":\"http://u:p%40@Host:1\"}, \"http://u:P%40@host:1\","
	       " \"https://u:p%40@host:1\"]");
	expect("[{\"id\":\"k1\",\"key\":\"sk-a\",\"group\":\"g\"}]", "[\"sk-A\", \"sk-a\"]", true,
	       "[\"sk-A\", {\"id\":\"k1\",\"key\":\"sk-a\",\"group\":\"g\"}]");
}

Test(pool_endpoints, the_first_of_one_address_counts)
{
	expect("[{\"id\":\"a\",\"url\":\"http://h:1\"}, {\"id\":\"b\",\"url\":\"http://h:1\"}]",
	       "[\"http://h:1\"]", false, "[{\"id\":\"a\",\"url\":\"http://h:1\"}]");
}

Test(pool_endpoints, what_is_no_endpoint_is_left_to_the_reader)
{
	expect("[{\"id\":\"a\"}, \"http://h:1\"]", "[{\"id\":\"a\"}, 3, \"no url\", null]", false,
	       "[{\"id\":\"a\"}, 3, \"no url\", null]");
	expect("[]", "[\"http://h:1\"]", false, "[\"http://h:1\"]");
	expect("[\"http://h:1\"]", "[]", false, "[]");
}
