/* What Redis and Kafka say of a root is compared when both rest, and told once. */
#include <criterion/criterion.h>

#include "core/drift.h"

enum { REST = 1000 };

Test(drift, what_moves_is_not_compared)
{
	struct drift_root r = {0};

	for (uint64_t now = 1; now < 100 * REST; now += 400) {
		drift_look(&r, (int64_t)now, (int64_t)now / 2, now, REST);
		cr_assert(!r.resting && !r.known);
	}
	drift_look(&r, r.ledger, r.kafka, 100 * REST + 1000, REST);
	cr_expect(r.resting && r.known);
	cr_expect_eq(r.drift, r.ledger - r.kafka);
}

Test(drift, either_that_moves_begins_the_rest_anew)
{
	struct drift_root r = {0};

	drift_look(&r, 10, 10, 1, REST);
	drift_look(&r, 12, 10, 900, REST);
	drift_look(&r, 12, 10, 1800, REST);
	cr_expect_not(r.known);
	drift_look(&r, 12, 11, 1900, REST);
	drift_look(&r, 12, 11, 2800, REST);
	cr_expect_not(r.known);
	drift_look(&r, 12, 11, 2900, REST);
	cr_expect(r.known);
	cr_expect_eq(r.drift, 1);
	drift_look(&r, 13, 11, 3000, REST); /* it goes on: what was known stays */
	cr_expect(r.known && !r.resting);
	cr_expect_eq(r.drift, 1);
	drift_look(&r, 13, 12, 3001, REST);
	drift_look(&r, 13, 12, 4001, REST);
	cr_expect_eq(r.drift, 1);
}

Test(drift, a_ledger_that_began_later_has_forgotten)
{
	struct drift_root r = {0};

	drift_look(&r, 5, 1000, 1, REST);
	drift_look(&r, 5, 1000, 2000, REST);
	cr_expect(r.known);
	cr_expect_eq(r.drift, 0);
	drift_look(&r, 9, 1001, 3000, REST);
	drift_look(&r, 9, 1001, 4000, REST);
	cr_expect_eq(r.drift, 3);
}

Test(drift, what_redis_loses_later_is_drift)
{
	struct drift_root r = {0};

	drift_look(&r, 50, 50, 1, REST);
	drift_look(&r, 50, 50, 2000, REST);
	cr_expect_eq(r.drift, 0);
	drift_look(&r, 30, 50, 3000, REST);
	drift_look(&r, 30, 50, 4000, REST);
	cr_expect_eq(r.drift, -20);
}

Test(drift, it_is_told_when_it_begins_and_when_it_has_grown_as_much_again)
{
	static const struct {
		int64_t drift;
		bool told;
	} steps[] = {{0, false},   {100, false},  {101, true},   {101, false},  {201, false},
		     {202, true},  {150, false},  {251, true},   {30, false},   {101, true},
		     {0, false},   {-100, false}, {-101, true},  {-150, false}, {101, true},
		     {-300, true}, {-101, false}, {-201, false}, {-202, true}};
	struct drift_alarm a = {0};

	for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
		cr_expect_eq(drift_alarm_step(&a, steps[i].drift, 100), steps[i].told, "step %zu",
			     i);
}
