/* Envoy's rate limit service over an engine that answers by policy and key: what is answered when a step fails. */
#include <criterion/criterion.h>
#include <envoy/service/ratelimit/v3/rls.pb-c.h>

#include "control/catalogue.h"
#include "control/control.h"
#include "fake_engine.h"
#include "grpc_task.h"
#include "ops.h"

enum { OK = 1, OVER_LIMIT = 2, ENDED = -1 };

static struct agent agent = {.engine = &fake};
static struct conn conn = {.owner = &agent};
static struct grpc_conn front = {.conn = &conn};
static struct grpc_task task;
static struct buf scratch[SCRATCH_N];

/* The policies of the descriptors, in their order; and what the call was answered: its codes, or its status. */
static struct policy policies[3];
static unsigned n_found;
static int overall, codes[3], status;
static size_t n_codes;

struct catalogue *control_catalogue(const struct control *c)
{
	(void)c;
	return NULL;
}

const struct policy *catalogue_envoy(const struct catalogue *c, struct slice name, uint64_t *walk)
{
	(void)c;
	(void)name;
	return (*walk)++ == 0 ? &policies[n_found++] : NULL;
}

void ops_observe(struct ops *o, enum ops_protocol protocol, uint64_t begun_us)
{
	(void)o;
	(void)protocol;
	(void)begun_us;
}

uint64_t ops_now_us(struct ops *o)
{
	(void)o;
	return 0;
}

struct buf *conn_scratch(const struct conn *c, enum conn_scratch which)
{
	cr_assert_eq(c, &conn);
	cr_assert_eq(scratch[which].len, 0, "it was not left empty");
	return &scratch[which];
}

void conn_scratch_leave(struct buf *b)
{
	buf_release(b);
}

void task_answer(struct grpc_task *t, const ProtobufCMessage *message)
{
	const Envoy__Service__Ratelimit__V3__RateLimitResponse *response = (const void *)message;

	cr_assert_eq(t, &task);
	cr_assert_eq(overall, 0, "answered twice");
	overall = (int)response->overall_code;
	n_codes = response->n_statuses;
	for (size_t i = 0; i < n_codes; i++)
		codes[i] = (int)response->statuses[i]->code;
}

void task_fail(struct grpc_task *t, enum grpc_status with, const char *text)
{
	cr_assert_eq(t, &task);
	cr_assert_eq(overall, 0, "answered twice");
	cr_assert_not_null(text);
	overall = ENDED;
	status = (int)with;
}

static void add_field(struct buf *to, int number, struct slice bytes)
{
	const char prefix[] = {(char)(number << 3 | 2), (char)bytes.len};

	buf_add(to, prefix, sizeof prefix);
	buf_add_slice(to, bytes);
}

/* A descriptor for each policy, with that value. */
static void ask(unsigned n, const char *const policy[], const char *const value[])
{
	struct buf message = {0};

	add_field(&message, 1, SLICE("edge"));
	for (unsigned i = 0; i < n; i++) {
		struct buf entry = {0}, descriptor = {0};

		snprintf(policies[i].name, sizeof policies[i].name, "%s", policy[i]);
		add_field(&entry, 1, SLICE("key"));
		add_field(&entry, 2, slice_of(value[i]));
		add_field(&descriptor, 1, buf_slice(&entry));
		add_field(&message, 2, buf_slice(&descriptor));
		buf_release(&entry);
		buf_release(&descriptor);
	}
	task = (struct grpc_task){.front = &front};
	rls_should_rate_limit(&task, buf_slice(&message));
	buf_release(&message);
}

static void discard_spare(void)
{
	rls_spare_release(&agent);
}

TestSuite(front_rls, .fini = discard_spare);

static void expect_codes(int all, int first, int second)
{
	cr_expect_eq(overall, all, "%d %d", overall, status);
	cr_assert_geq(n_codes, 2);
	cr_expect_eq(codes[0], first);
	cr_expect_eq(codes[1], second);
	cr_expect_null(task.check);
	cr_expect_eq(fake.live, 0);
}

Test(front_rls, numbers_that_are_missing_do_not_fail_what_was_granted)
{
	ask(2, (const char *[]){"p", "down"}, (const char *[]){"x", "y"});
	cr_expect_eq(fake.decided, 2, "taken, and peeked at");
	expect_codes(OK, OK, OK);
}

Test(front_rls, numbers_that_are_missing_do_not_fail_what_was_refused)
{
	ask(2, (const char *[]){"p", "down"}, (const char *[]){"refuse", "y"});
	cr_expect_eq(fake.decided, 2);
	expect_codes(OVER_LIMIT, OVER_LIMIT, OK);
}

Test(front_rls, no_room_to_peek)
{
	fake.max = 1;
	ask(3, (const char *[]){"p", "q", "r"}, (const char *[]){"x", "later", "y"});
	cr_expect_eq(overall, 0, "one is in progress");
	fake_answer_all();
	cr_expect_eq(fake.decided, 2);
	expect_codes(OK, OK, OK);
	cr_expect_eq(n_codes, 3);
}

Test(front_rls, without_a_verdict_the_call_fails)
{
	ask(2, (const char *[]){"down", "p"}, (const char *[]){"x", "y"});
	cr_expect_eq(overall, ENDED);
	cr_expect_eq(status, GRPC_UNAVAILABLE);
	cr_expect_eq(fake.live, 0);
}
