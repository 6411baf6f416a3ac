/*
 * What a decision costs Redis by the decide script, beside plain GET and beside a script of one key a call
 * (bench/one_key_bucket.lua), in interleaved rounds on the same server; what writing and reading a call costs the agent; and
 * the memory of a bucket. Also what a lease costs, and a decision on keys that have leases outstanding. Figures are CPU time of redis-server a decision, from the kernel's accounting: medians over the
 * rounds of each ratio to the one-key script, for absolute figures drift.
 *
 * usage: script_bench [ROUNDS]     (in the source directory)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/keyspace.h"
#include "dice.h"
#include "script_rig.h"

enum {
	KEYS = 100000,
	DECISIONS = 32000,
	IN_FLIGHT = 64,
	ROUNDS_MAX = 101,
	SUBJECTS = 13,
	HOT = 64
};

static struct script_rig rig;
static struct limit limit, hot_limit;
static struct dice dice = {1};
static char one_key_sha[41];

static double now_s(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* CPU time of the server, seconds: all of its threads. */
static double server_cpu_s(void)
{
	clockid_t clock;

	if (clock_getcpuclockid(rig.server.pid, &clock) != 0)
		abort();
	return now_s(clock);
}

static size_t key_name(uint64_t i, char *ret_name)
{
	char key[32];

	snprintf(key, sizeof key, "user:%06" PRIu64, i);
	return keyspace_check(ALGORITHM_TOKEN_BUCKET, SLICE("captcha"), 0, slice_of(key), ret_name);
}

/* ---- Subjects: each sends DECISIONS decisions on random keys ---- */

static void add_bulk(struct buf *b, struct slice s)
{
	buf_printf(b, "$%zu\r\n", s.len);
	buf_add_slice(b, s);
	buf_add_text(b, "\r\n");
}

static void run_single(bool is_script, unsigned unused)
{
	char name[KEYSPACE_NAME_MAX];
	struct buf b = {0};

	(void)unused;
	for (int i = 0; i < DECISIONS; i += IN_FLIGHT) {
		buf_clear(&b);
		for (int j = 0; j < IN_FLIGHT; j++) {
			struct slice key = {name, key_name(dice_below(&dice, KEYS), name)};

			buf_add_text(&b,
				     is_script ? "*7\r\n$7\r\nEVALSHA\r\n" : "*2\r\n$3\r\nGET\r\n");
			if (is_script) {
				add_bulk(&b, slice_of(one_key_sha));
				add_bulk(&b, SLICE("1"));
			}
			add_bulk(&b, key);
			if (is_script) /* µtokens a µs, capacity, cost: as `limit` */
				buf_add_text(&b, "$2\r\n10\r\n$8\r\n20000000\r\n$7\r\n1000000\r\n");
		}
		struct redis_answer a = redis_client_send(&rig.client, buf_slice(&b));

		redis_answer_release(&a);
		for (int j = 1; j < IN_FLIGHT; j++) {
			a = redis_client_send(&rig.client, (struct slice){NULL, 0});
			redis_answer_release(&a);
		}
	}
	buf_release(&b);
}

static void run_batches(bool unused, unsigned n)
{
	static char name[SCRIPT_OPS_MAX][64];
	struct script_check check[SCRIPT_OPS_MAX];
	struct script_op op[SCRIPT_OPS_MAX];
	struct script_answer answer[SCRIPT_OPS_MAX];

	(void)unused;
	for (unsigned i = 0; i < DECISIONS; i += n) {
		for (unsigned j = 0; j < n; j++) {
			check[j] = (struct script_check){
				.limit = &limit, .key = {name[j], 0}, .cost = 1};
			check[j].key.len = key_name(dice_below(&dice, KEYS), name[j]);
			op[j] = (struct script_op){
				.kind = SCRIPT_TAKE, .checks = &check[j], .n_checks = 1};
		}
		script_rig_run(&rig, op, n, answer);
	}
}

/* A lease of each of the first `n` keys and, if `returns`, its return in a call of its own. */
static void lease_keys(unsigned n, bool returns)
{
	static char name[HOT][64];
	static uint64_t last_id;
	struct script_check check[HOT];
	struct script_op op[HOT] = {0};
	struct script_answer answer[HOT];

	for (unsigned j = 0; j < n; j++) {
		check[j] =
			(struct script_check){.limit = &hot_limit, .key = {name[j], 0}, .cost = 1};
		check[j].key.len = key_name(KEYS + j, name[j]);
		op[j] = (struct script_op){.kind = SCRIPT_LEASE,
					   .checks = &check[j],
					   .n_checks = 1,
					   .amount = 100,
					   .ttl_us = SCRIPT_LEASE_TTL_MAX_US,
					   .sharers = 1};
		last_id++;
		memcpy(op[j].lease, &last_id, sizeof op[j].lease);
	}
	script_rig_run(&rig, op, n, answer);
	for (unsigned j = 0; j < n && returns; j++)
		op[j].kind = SCRIPT_UNLEASE;
	if (returns)
		script_rig_run(&rig, op, n, answer);
}

static void run_leases(bool unused, unsigned n)
{
	(void)unused;
	for (unsigned i = 0; i < DECISIONS; i += 2 * n)
		lease_keys(n, true);
}

static void run_on_leased(bool unused, unsigned n)
{
	static char name[HOT][64];
	struct script_check check[HOT];
	struct script_op op[HOT];
	struct script_answer answer[HOT];

	(void)unused;
	lease_keys(n, false);
	for (unsigned j = 0; j < n; j++) {
		check[j] =
			(struct script_check){.limit = &hot_limit, .key = {name[j], 0}, .cost = 1};
		check[j].key.len = key_name(KEYS + j, name[j]);
		op[j] = (struct script_op){.kind = SCRIPT_TAKE, .checks = &check[j], .n_checks = 1};
	}
	for (unsigned i = 0; i < DECISIONS; i += n)
		script_rig_run(&rig, op, n, answer);
}

/* HOT children of one parent take turns, `n` in a call; with weights the parent's shares are looked at. */
static void run_levels(bool weighted, unsigned n)
{
	static char name[HOT][64], parent[64];
	static struct script_check check[HOT][2];
	struct script_op op[HOT];
	struct script_answer answer[HOT];
	const char *policy = weighted ? "shared" : "plain";

	snprintf(parent, sizeof parent, "k:b{tenant}%s:0", policy);
	for (unsigned j = 0; j < HOT; j++) {
		snprintf(name[j], sizeof name[j], "k:b{tenant}%s:1/%u", policy, j);
		check[j][0] = (struct script_check){
			.limit = &hot_limit, .key = slice_of(parent), .cost = 1};
		check[j][1] = (struct script_check){
			.limit = &hot_limit, .key = slice_of(name[j]), .cost = 1};
		if (weighted)
			check[j][0].share = (struct share_claim){j + 1, 1, LIMIT_MAX};
	}
	for (unsigned i = 0; i < DECISIONS; i += n) {
		for (unsigned j = 0; j < n; j++)
			op[j] = (struct script_op){
				.kind = SCRIPT_TAKE, .checks = check[(i + j) % HOT], .n_checks = 2};
		script_rig_run(&rig, op, n, answer);
	}
}

static const struct {
	const char *name;
	void (*run)(bool is_script, unsigned n);
	bool is_script;
	unsigned n;
} subjects[SUBJECTS] = {
	{"GET, 64 in flight", run_single, false, 0},
	{"one-key script, 64 in flight", run_single, true, 0},
	{"decide, 1 a call, one in flight", run_batches, false, 1},
	{"decide, 8 a call", run_batches, false, 8},
	{"decide, 32 a call", run_batches, false, 32},
	{"decide, 64 a call", run_batches, false, 64},
	{"lease or its return, 1 a call", run_leases, false, 1},
	{"lease or its return, 64 a call", run_leases, false, HOT},
	{"decide, 64 a call, keys with leases", run_on_leased, false, HOT},
	{"two levels, 1 a call, one in flight", run_levels, false, 1},
	{"two levels, 64 a call", run_levels, false, HOT},
	{"two levels with weights, 64 children, 1 a call, one in flight", run_levels, true, 1},
	{"two levels with weights, 64 children, 64 a call", run_levels, true, HOT},
};

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, compare);
	return v[n / 2];
}

static void measure_server(int rounds)
{
	static double us[SUBJECTS][ROUNDS_MAX], ratio[SUBJECTS][ROUNDS_MAX];

	for (int r = -1; r < rounds; r++) { /* the first warms up */
		for (int s = 0; s < SUBJECTS; s++) {
			double before = server_cpu_s();

			if (s < 2) { /* their states differ: each finds its own */
				struct redis_answer a =
					redis_client_command(&rig.client, "SELECT %d", s);

				redis_answer_release(&a);
			}
			subjects[s].run(subjects[s].is_script, subjects[s].n);
			if (r >= 0)
				us[s][r] = (server_cpu_s() - before) / DECISIONS * 1e6;
			if (s == 1) {
				struct redis_answer a =
					redis_client_command(&rig.client, "SELECT 0");

				redis_answer_release(&a);
			}
		}
		for (int s = 0; s < SUBJECTS && r >= 0; s++)
			ratio[s][r] = us[s][r] / us[1][r];
	}
	printf("| server CPU a decision, 100k keys | µs | to the one-key script "
	       "|\n|---|---|---|\n");
	for (int s = 0; s < SUBJECTS; s++)
		printf("| %s | %.2f | %.2f |\n", subjects[s].name, median(us[s], rounds),
		       median(ratio[s], rounds));
}

/* ---- The agent's side, and memory ---- */

static void measure_codec(void)
{
	enum { CALLS = 4000, N = 64 };
	static char name[N][64];
	struct script_check check[N];
	double started;

	for (unsigned j = 0; j < N; j++) {
		check[j] = (struct script_check){.limit = &limit, .key = {name[j], 0}, .cost = 1};
		check[j].key.len = key_name(j, name[j]);
	}
	started = now_s(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < CALLS; i++) {
		script_batch_clear(rig.batch);
		for (unsigned j = 0; j < N; j++) {
			struct script_op op = {
				.kind = SCRIPT_TAKE, .checks = &check[j], .n_checks = 1};

			if (script_batch_add(rig.batch, &op, 0) != KOVA_OK)
				abort();
		}
		script_batch_command(
			rig.batch, false,
			&(struct script_call){.stamp = (uint64_t)i, .latest_us = LIMIT_FOREVER_US});
	}
	printf("\nwriting: %.0f ns a decision",
	       (now_s(CLOCK_PROCESS_CPUTIME_ID) - started) / (CALLS * N) * 1e9);

	struct script_op op[N];
	struct script_answer answer[N];

	for (unsigned j = 0; j < N; j++)
		op[j] = (struct script_op){.kind = SCRIPT_TAKE, .checks = &check[j], .n_checks = 1};
	script_rig_run(&rig, op, N, answer);
	started = now_s(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < CALLS; i++) {
		struct script_reader r;

		if (script_reader_init(&r, rig.reply.text, rig.stamp, N,
				       script_batch_plain(rig.batch)) != KOVA_OK)
			abort();
		for (unsigned j = 0; j < N; j++)
			if (script_reader_next(&r, &answer[j]) != KOVA_OK)
				abort();
	}
	printf(", reading: %.0f ns\n",
	       (now_s(CLOCK_PROCESS_CPUTIME_ID) - started) / (CALLS * N) * 1e9);
}

static double used_memory(void)
{
	struct redis_answer a = redis_client_command(&rig.client, "INFO memory");
	double bytes = strtod(strstr(a.text.ptr, "used_memory:") + 12, NULL);

	redis_answer_release(&a);
	return bytes;
}

static void measure_memory(void)
{
	static char name[SCRIPT_OPS_MAX][64];
	struct redis_answer a = redis_client_command(&rig.client, "FLUSHALL");
	double empty, names = 0;

	redis_answer_release(&a);
	empty = used_memory();
	for (uint64_t i = 0; i < KEYS; i += 100) {
		struct script_check check[100];
		struct script_op op[100];
		struct script_answer answer[100];

		for (unsigned j = 0; j < 100; j++) {
			check[j] = (struct script_check){
				.limit = &limit, .key = {name[j], 0}, .cost = 1};
			check[j].key.len = key_name(i + j, name[j]);
			names += (double)check[j].key.len;
			op[j] = (struct script_op){
				.kind = SCRIPT_TAKE, .checks = &check[j], .n_checks = 1};
		}
		script_rig_run(&rig, op, 100, answer);
	}
	printf("memory of a token bucket beyond its key's name: %.1f bytes (of %d)\n",
	       (used_memory() - empty - names) / KEYS, KEYS);
}

static void load_one_key_script(void)
{
	FILE *f = fopen("bench/one_key_bucket.lua", "r");
	char body[4096];
	struct buf b = {0};
	struct redis_answer a;

	if (f == NULL) {
		perror("bench/one_key_bucket.lua");
		exit(1);
	}
	add_bulk(&b, (struct slice){body, fread(body, 1, sizeof body, f)});
	fclose(f);
	struct buf command = {0};

	buf_add_text(&command, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n");
	buf_add_slice(&command, buf_slice(&b));
	a = redis_client_send(&rig.client, buf_slice(&command));
	memcpy(one_key_sha, a.text.ptr, sizeof one_key_sha - 1);
	redis_answer_release(&a);
	buf_release(&b);
	buf_release(&command);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 9;

	rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
	limit = (struct limit){.limit = 10, .per_us = 1000000, .burst = 20};
	hot_limit = (struct limit){.limit = 1000000, .per_us = 1000000, .burst = 1000000};
	if (limit_init(&limit) != KOVA_OK || limit_init(&hot_limit) != KOVA_OK)
		abort();
	script_rig_start(&rig);
	load_one_key_script();
	measure_server(rounds);
	measure_codec();
	measure_memory();
	script_rig_stop(&rig);
	return 0;
}
