#include <criterion/criterion.h>

#include "core/pool_dialect.h"

#define NOW_US (UINT64_C(1796036573) * 1000000)
#define SECOND UINT64_C(1000000)

static struct pool_said read_headers(enum pool_dialect dialect, uint16_t status,
				     const char *const *pairs)
{
	struct pool_header headers[16];
	struct pool_said said;
	size_t n = 0;

	for (; pairs[2 * n] != NULL; n++)
		headers[n] =
			(struct pool_header){slice_of(pairs[2 * n]), slice_of(pairs[2 * n + 1])};
	pool_dialect_read(dialect, headers, n, status, NOW_US, &said);
	return said;
}

#define READ(dialect, status, ...) \
	read_headers(dialect, status, (const char *const[]){__VA_ARGS__, NULL})

static const struct pool_quota *quota(const struct pool_said *said, const char *name)
{
	for (size_t i = 0; i < said->n_quotas; i++)
		if (strcmp(said->quotas[i].name, name) == 0)
			return &said->quotas[i];
	cr_assert_fail("no quota %s", name);
	return NULL;
}

static void expect(const struct pool_said *said, const char *name, int64_t limit, int64_t left,
		   uint64_t in_us)
{
	const struct pool_quota *q = quota(said, name);

	cr_expect_eq(q->limit, limit, "%s: %ld", name, (long)q->limit);
	cr_expect_eq(q->left, left, "%s: %ld", name, (long)q->left);
	cr_expect_eq(q->absolute ? q->reset_us - NOW_US : q->reset_us, in_us, "%s: %lu", name,
		     (unsigned long)q->reset_us);
}

Test(pool_dialect, durations_as_go_writes_them)
{
	static const struct {
		const char *text;
		uint64_t us;
	} good[] = {{"17ms", 17000},
		    {"1s", SECOND},
		    {"6m0s", 360 * SECOND},
		    {"2m59.56s", 179560000},
		    {"23h47m36.648s", UINT64_C(85656648000)},
		    {"1.5ms", 1500},
		    {"1ns", 1},
		    {"3us", 3},
		    {"0", 0},
		    {"0s", 0},
		    {"24h", 86400 * SECOND}};
	static const char *const bad[] = {"", "s", "1", "1x", "1s2", "m1s", "1.2.3s", ".s", "soon"};
	static const char *const wide[] = {"-1s", "24h0m1s", "25h", "99999999999999999999s"};
	uint64_t us;

	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		cr_expect_eq(pool_go_duration(slice_of(good[i].text), &us), KOVA_OK, "%s",
			     good[i].text);
		cr_expect_eq(us, good[i].us, "%s: %lu", good[i].text, (unsigned long)us);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		cr_expect_eq(pool_go_duration(slice_of(bad[i]), &us), KOVA_EPROTO, "%s", bad[i]);
	for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
		cr_expect_eq(pool_go_duration(slice_of(wide[i]), &us), KOVA_ERANGE, "%s", wide[i]);
}

Test(pool_dialect, openai)
{
	struct pool_said said = READ(
		POOL_DIALECT_OPENAI, 200, "X-RateLimit-Limit-Requests", "60",
		"x-ratelimit-remaining-requests", "59", "x-ratelimit-reset-requests", "17ms",
		"x-ratelimit-limit-tokens", "150000", "x-ratelimit-remaining-tokens", "0",
		"x-ratelimit-reset-tokens", "6m0s", "retry-after-ms", "1500", "retry-after", "9");

	expect(&said, "requests", 60, 59, 17000);
	expect(&said, "tokens", 150000, 0, 360 * SECOND);
	cr_expect(said.hint_us == 1500000 && said.bad == 0);
}

Test(pool_dialect, azure_has_seconds)
{
	struct pool_said said = READ(POOL_DIALECT_AZURE, 200, "x-ratelimit-remaining-tokens", "-1",
				     "x-ratelimit-limit-tokens", "-1", "x-ratelimit-reset-tokens",
				     "300", "x-ms-retry-after-ms", "250");

	expect(&said, "tokens", -1, -1, 300 * SECOND);
	cr_expect(said.hint_us == 250000 && said.bad == 0);
	said = READ(POOL_DIALECT_AZURE, 200, "x-ratelimit-reset-tokens", "6m0s");
	cr_expect(said.n_quotas == 0 && said.bad == 1);
}

Test(pool_dialect, anthropic)
{
	struct pool_said said =
		READ(POOL_DIALECT_ANTHROPIC, 429, "anthropic-ratelimit-input-tokens-remaining", "0",
		     "anthropic-ratelimit-input-tokens-limit", "100",
		     "anthropic-ratelimit-input-tokens-reset", "2026-11-30T11:03:43.5Z",
		     "anthropic-ratelimit-requests-remaining", "5",
		     "anthropic-ratelimit-requests-reset", "2026-11-30T11:02:52Z");

	expect(&said, "input-tokens", 100, 0, 50500000);
	cr_expect_eq(said.n_quotas, 1, "a reset in the past is none");
}

Test(pool_dialect, github)
{
	struct pool_said said =
		READ(POOL_DIALECT_GITHUB, 403, "x-ratelimit-limit", "5000", "x-ratelimit-remaining",
		     "0", "x-ratelimit-reset", "1796036673");

	expect(&said, "requests", 5000, 0, 100 * SECOND);
	cr_expect_eq(said.hint_us, 0);
	said = READ(POOL_DIALECT_GITHUB, 403, "x-ratelimit-remaining", "7");
	cr_expect_eq(said.hint_us, 60 * SECOND);
	said = READ(POOL_DIALECT_GITHUB, 429, "retry-after", "7");
	cr_expect_eq(said.hint_us, 7 * SECOND);
	said = READ(POOL_DIALECT_GITHUB, 200, "x-ratelimit-remaining", "7");
	cr_expect_eq(said.hint_us, 0);
}

Test(pool_dialect, others)
{
	struct pool_said said =
		READ(POOL_DIALECT_DISCORD, 200, "X-RateLimit-Limit", "5", "X-RateLimit-Remaining",
		     "0", "X-RateLimit-Reset-After", "1.337", "X-RateLimit-Reset", "1796036673");

	expect(&said, "requests", 5, 0, 1337000);
	said = READ(POOL_DIALECT_REDDIT, 200, "x-ratelimit-used", "4", "x-ratelimit-remaining",
		    "96.0", "x-ratelimit-reset", "300");
	expect(&said, "requests", 100, 96, 300 * SECOND);
	said = READ(POOL_DIALECT_TWITTER, 200, "x-rate-limit-limit", "15", "x-rate-limit-remaining",
		    "14", "x-rate-limit-reset", "1796037473");
	expect(&said, "requests", 15, 14, 900 * SECOND);
	said = READ(POOL_DIALECT_IETF, 200, "RateLimit-Policy",
		    "\"a,b\";q=50;w=60, \"day\";w=86400;q=900", "RateLimit",
		    "\"a,b\";r=0;t=30, \"day\";t=3600;r=17");
	expect(&said, "a,b", 50, 0, 30 * SECOND);
	expect(&said, "day", 900, 17, 3600 * SECOND);
	said = READ(POOL_DIALECT_IETF, 200, "RateLimit", "\"a\tb\";r=0;t=30, \"day\";t=3600;r=17");
	cr_expect_eq(said.n_quotas, 1, "no string of a structured field has a tab");
	expect(&said, "day", -1, 17, 3600 * SECOND);
}

Test(pool_dialect, two_captcha)
{
	struct pool_said said =
		READ(POOL_DIALECT_2CAPTCHA, 200, "ERROR", "ERROR_NO_SLOT_AVAILABLE");

	cr_expect_eq(said.hint_us, 5 * SECOND);
	said = READ(POOL_DIALECT_2CAPTCHA, 200, "error", "ERROR_ZERO_BALANCE");
	cr_expect_eq(said.hint_us, 60 * SECOND);
	said = READ(POOL_DIALECT_2CAPTCHA, 200, "error", "ERROR_KEY_DOES_NOT_EXIST");
	cr_expect(said.unknown_key && said.hint_us == 0);
}

Test(pool_dialect, nothing_is_guessed)
{
	struct pool_said said = READ(POOL_DIALECT_NONE, 429, "x-ratelimit-remaining", "0",
				     "x-ratelimit-reset", "300", "Retry-After", "2.5");

	cr_expect(said.n_quotas == 0 && said.hint_us == 2500000 && said.bad == 0);
}

Test(pool_dialect, what_is_left_aside_is_counted)
{
	static const char *const resets[] = {"86401s", "-1s", "soon", "300"};

	for (size_t i = 0; i < sizeof resets / sizeof *resets; i++) {
		struct pool_said said =
			READ(POOL_DIALECT_OPENAI, 200, "x-ratelimit-remaining-tokens", "0",
			     "x-ratelimit-reset-tokens", resets[i]);

		cr_expect(said.n_quotas == 0 && said.bad == 1, "%s", resets[i]);
	}
	struct pool_said said = READ(POOL_DIALECT_NONE, 429, "retry-after", "86401");

	cr_expect(said.hint_us == 0 && said.bad == 1);
}
