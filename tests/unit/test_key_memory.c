/*
 * What a key takes in a coordinator's memory when three regions use it and have a grant of it: its ledgers, its allocator and its
 * name, tables and what lies idle included. It is at most 256 bytes, so a million keys are 256 MB.
 *
 * Sanitizers make more of each: under them it is skipped.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "book.h"
#include "dice.h"
#include "granter.h"
#include "sanitized.h"

#ifdef SANITIZED
int main(void)
{
	puts("SKIPPED: a sanitizer needs memory of its own");
	return 77;
}
#else

/* Keys come in no order: a multiple of ORDER each. */
enum { ORDER = 7919 };
enum { KEYS = 200000, REGIONS = 3, AGENTS = 50, KEY_BYTES_MAX = 256 };

#define SECOND UINT64_C(1000000)
/* An instant of these years, µs. */
#define WALL UINT64_C(1790000000000000)

static struct keys keys;
static struct book book;
static struct granter granter;
static struct global_terms terms;
static struct dice dice = {5};

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static void terms_init(void)
{
	struct allocator_terms *t;

	terms.n = 1;
	terms.n_regions = REGIONS;
	terms.policies = calloc(1, sizeof *terms.policies);
	strcpy(terms.policies[0].name, "captcha-submit");
	t = &terms.policies[0].terms;
	*t = (struct allocator_terms){.kind = SHARE_RATE,
				      .n_regions = REGIONS,
				      .whole = 1000,
				      .duration_us = 5 * SECOND,
				      .margin_us = 600000,
				      .max_skew_us = 250000,
				      .lend_us = 30 * SECOND,
				      .floors = 1};
	for (unsigned r = 0; r < REGIONS; r++) {
		snprintf(terms.region[r].name, sizeof terms.region[r].name, "region-%u", r);
		t->region[r].floor = t->region[r].before = 33;
		t->region[r].weight = 1;
	}
}

static void use(struct slice root, unsigned region, uint64_t now_us)
{
	const struct book_key key = {SLICE("captcha-submit"), slice_of(terms.region[region].name),
				     root, false};
	uint64_t hlc = (WALL + now_us) / 1000 << 11;
	char agent[16];

	snprintf(agent, sizeof agent, "worker-%lu", dice_below(&dice, AGENTS));
	const struct usage_record r = {slice_of(agent),
				       WALL / 1000,
				       hlc - (dice_below(&dice, 600000) << 11),
				       hlc,
				       {dice_below(&dice, 1000000), dice_below(&dice, 1000), 0}};

	must(book_read(&book, &key, &r) == KOVA_OK, "a record can't be read");
}

static void report(struct slice root, unsigned region, uint64_t now_us)
{
	const struct share_quota quota = {slice_of(terms.region[region].name),
					  SLICE("captcha-submit"), root};
	const struct share_report r = {.clock = WALL - dice_below(&dice, 86400 * SECOND),
				       .t0_us = WALL + now_us - dice_below(&dice, SECOND),
				       .whole = 1000,
				       .floors = 1,
				       .demand = (uint32_t)dice_below(&dice, 2000)};

	must(granter_report(&granter, &quota, &r, now_us) == KOVA_OK, "a report can't be read");
}

static bool on_grant(const struct share_quota *quota, const struct share_grant *grant, void *data)
{
	(void)quota;
	(void)grant;
	++*(unsigned *)data;
	return true;
}

/* That are resident. */
static size_t bytes_of_process(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	size_t size = 0, resident = 0;

	must(file != NULL && fscanf(file, "%zu %zu", &size, &resident) == 2, "no /proc");
	fclose(file);
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

int main(void)
{
	size_t before = bytes_of_process(), bytes;
	uint64_t now_us = 3600 * SECOND;
	unsigned grants = 0;

	terms_init();
	book_init(&book, &keys);
	must(granter_init(&granter, &terms, &keys, 1, 1) == KOVA_OK, "out of memory");
	for (unsigned i = 0; i < REGIONS * KEYS; i++) {
		char root[32];

		now_us += 10;
		snprintf(root, sizeof root, "tenant-%07u", (unsigned)((uint64_t)i * ORDER % KEYS));
		use(slice_of(root), i / KEYS, now_us);
		report(slice_of(root), i / KEYS, now_us);
	}
	must(granter_decide(&granter, now_us, on_grant, &grants), "it can't be decided");
	book_settle(&book);
	bytes = (bytes_of_process() - before) / KEYS;
	printf("%zu bytes a key of %d regions, %u grants\n", bytes, REGIONS, grants);
	must(grants == REGIONS * KEYS && book.n_ledgers == REGIONS * KEYS &&
		     granter.n_quotas == KEYS,
	     "that is not all");
	must(bytes <= KEY_BYTES_MAX, "that is too much");
	granter_release(&granter);
	book_release(&book);
	keys_release(&keys);
	global_terms_release(&terms);
	return 0;
}
#endif
