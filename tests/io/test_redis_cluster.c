/*
 * A real Cluster: routing, resharding under calls, a master that dies; and a fake one that sends us
 * round in circles. Mostly waits.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/keyspace.h"
#include "fake_redis.h"
#include "redis_group.h"
#include "store_rig.h"

enum { MASTERS = 3, SLOTS = 16384, TIMEOUT_MS = 1000 };

static struct store_rig rig;
static struct redis_node nodes[REDIS_GROUP_MAX];
static char addresses[MASTERS][32];
static char *seeds[MASTERS] = {addresses[0], addresses[1], addresses[2]};

static struct redis_conf conf_of(size_t n_seeds, uint64_t timeout_ms)
{
	return (struct redis_conf){.mode = REDIS_CLUSTER,
				   .addresses = seeds,
				   .n_addresses = n_seeds,
				   .timeout_ms = timeout_ms,
				   .connect_timeout_ms = 1000};
}

static void begin(size_t n_seeds)
{
	struct redis_conf conf = conf_of(n_seeds, TIMEOUT_MS);

	redis_cluster_start(nodes, MASTERS);
	for (size_t i = 0; i < MASTERS; i++)
		snprintf(addresses[i], sizeof addresses[i], "127.0.0.1:%u", nodes[i].port);
	rig_init(&rig);
	rig_open(&rig, &conf);
	for (uint16_t slot = 0; slot < SLOTS; slot = (uint16_t)(slot + SLOTS / MASTERS))
		rig_wait_up(&rig, slot, true, 5000);
}

static void end(void)
{
	rig_end(&rig);
	for (size_t i = 0; i < REDIS_GROUP_MAX; i++)
		if (nodes[i].port != 0)
			redis_node_end(&nodes[i]);
}

static uint16_t slot_of(const char *key)
{
	return keyspace_slot(slice_of(key));
}

Test(redis_cluster, every_slot_is_asked_where_it_is)
{
	begin(1); /* the others are found */
	cr_assert(redis_store_is_cluster(rig.store));
	cr_assert_eq(redis_store_shards(rig.store), MASTERS);
	for (int i = 0; i < 300; i++) {
		char key[16];
		snprintf(key, sizeof key, "key:%d", i);
		rig_ask(&rig, slot_of(key), "INCR %s", key);
	}
	for (size_t i = 0; i < 300; i++)
		cr_assert_eq(rig_wait(&rig, i)->status, KOVA_OK, "%s", rig.calls[i].text);
	cr_assert_eq(redis_store_counters(rig.store).redirects, 0);
	cr_assert_neq(redis_store_shard(rig.store, 0), redis_store_shard(rig.store, SLOTS - 1));
	/* The wrong slot: MOVED leads there all the same. */
	size_t lost =
		rig_ask(&rig, (uint16_t)((slot_of("key:0") + SLOTS / 2) % SLOTS), "INCR key:0");
	cr_assert_eq(rig_wait(&rig, lost)->status, KOVA_OK, "%s", rig.calls[lost].text);
	cr_assert_str_eq(rig.calls[lost].text, "2");
	end();
}

/* "which" of the nodes serves the slot now. */
static size_t owner_of(uint16_t slot)
{
	return (size_t)slot / (SLOTS / MASTERS + 1);
}

static void migrate_begin(uint16_t slot, size_t from, size_t to)
{
	char from_id[41], to_id[41];

	redis_cluster_id(&nodes[from], from_id);
	redis_cluster_id(&nodes[to], to_id);
	cr_assert_str_eq(
		redis_node_command(&nodes[to], "CLUSTER SETSLOT %u IMPORTING %s", slot, from_id),
		"OK");
	cr_assert_str_eq(
		redis_node_command(&nodes[from], "CLUSTER SETSLOT %u MIGRATING %s", slot, to_id),
		"OK");
}

static void migrate_key(const char *key, size_t from, size_t to)
{
	const char *answer = redis_node_command(&nodes[from], "MIGRATE 127.0.0.1 %u %s 0 1000",
						nodes[to].port, key);
	cr_assert(strcmp(answer, "OK") == 0 || strcmp(answer, "NOKEY") == 0, "%s", answer);
}

static void migrate_end(uint16_t slot, size_t from, size_t to)
{
	char to_id[41];

	redis_cluster_id(&nodes[to], to_id);
	cr_assert_str_eq(redis_node_command(&nodes[to], "CLUSTER SETSLOT %u NODE %s", slot, to_id),
			 "OK");
	cr_assert_str_eq(
		redis_node_command(&nodes[from], "CLUSTER SETSLOT %u NODE %s", slot, to_id), "OK");
}

static void incr_all(unsigned n_keys, unsigned *asked)
{
	for (unsigned k = 0; k < n_keys; k++)
		rig_ask(&rig, slot_of("{moving}"), "INCR {moving}%u", k);
	rig_run(&rig, 3);
	(*asked)++;
}

Test(redis_cluster, a_slot_moves_back_and_forth_under_calls, .timeout = 100)
{
	enum { KEYS = 8 };
	char key[32];
	unsigned asked = 0;

	begin(MASTERS);
	uint16_t slot = slot_of("{moving}");
	size_t home = owner_of(slot);
	for (unsigned round = 0; round < 4; round++) {
		size_t from = (home + round) % MASTERS, to = (home + round + 1) % MASTERS;

		incr_all(KEYS + round, &asked);
		migrate_begin(slot, from, to);
		for (unsigned k = 0; k < KEYS + round; k++) {
			incr_all(KEYS + round, &asked);
			snprintf(key, sizeof key, "{moving}%u", k);
			migrate_key(key, from, to);
		}
		incr_all(KEYS + round, &asked);
		migrate_end(slot, from, to);
		incr_all(KEYS + round, &asked);
	}
	for (size_t i = 0; i < rig.n_calls; i++)
		cr_assert_eq(rig_wait(&rig, i)->status, KOVA_OK, "call %zu: %d %s", i,
			     rig.calls[i].status, rig.calls[i].text);
	cr_assert_gt(redis_store_counters(rig.store).redirects, 0);

	/* Each was executed once: the first key was in every round. */
	size_t last = rig_ask(&rig, slot, "GET {moving}0");
	snprintf(key, sizeof key, "%u", asked);
	cr_assert_str_eq(rig_wait(&rig, last)->text, key);
	end();
}

#define TWO_KEYS \
	"EVAL return(redis.call('incr',KEYS[1])+redis.call('incr',KEYS[2])) 2 {moving}a {moving}b"

Test(redis_cluster, two_keys_half_moved_are_tried_again)
{
	begin(MASTERS);
	uint16_t slot = slot_of("{moving}");
	size_t from = owner_of(slot), to = (from + 1) % MASTERS;

	cr_assert_eq(rig_wait(&rig, rig_ask(&rig, slot, TWO_KEYS))->status, KOVA_OK);
	migrate_begin(slot, from, to);
	migrate_key("{moving}a", from, to);
	size_t late = rig_ask(&rig, slot, TWO_KEYS);
	const struct rig_call *call = rig_wait(&rig, late);
	cr_assert_eq(call->status, KOVA_EREPLY, "not executed, and that is known");
	cr_assert_not_null(strstr(call->text, "TRYAGAIN"), "%s", call->text);
	cr_assert_lt(rig_own_ms(call), TIMEOUT_MS + 30);

	size_t in_time = rig_ask(&rig, slot, TWO_KEYS);
	rig_run(&rig, 100);
	migrate_key("{moving}b", from, to);
	call = rig_wait(&rig, in_time);
	cr_assert_eq(call->status, KOVA_OK, "%s", call->text);
	cr_assert_str_eq(call->text, "4");
	migrate_end(slot, from, to);
	cr_assert_str_eq(rig_wait(&rig, rig_ask(&rig, slot, TWO_KEYS))->text, "6");
	end();
}

Test(redis_cluster, redis_cli_reshards_under_calls, .timeout = 100)
{
	char from[41], to[41], line[256];

	begin(MASTERS);
	for (int i = 0; i < 200; i++)
		rig_ask(&rig, (uint16_t)(i * 50), "CLUSTER COUNTKEYSINSLOT %d", i * 50);
	redis_cluster_id(&nodes[0], from);
	redis_cluster_id(&nodes[2], to);
	snprintf(line, sizeof line,
		 "redis-cli --cluster reshard 127.0.0.1:%u --cluster-from %s --cluster-to %s "
		 "--cluster-slots 300 "
		 "--cluster-yes >/dev/null 2>&1",
		 nodes[0].port, from, to);
	FILE *reshard = popen(line, "r");
	for (int i = 0; i < 400; i++) {
		rig_ask(&rig, 0, "INCR {%s}", "06S"); /* slot 0: among the first to go */
		rig_run(&rig, 5);
	}
	cr_assert_eq(pclose(reshard), 0);
	for (size_t i = 0; i < rig.n_calls; i++)
		cr_assert_eq(rig_wait(&rig, i)->status, KOVA_OK, "call %zu: %s", i,
			     rig.calls[i].text);
	cr_assert_str_eq(rig.calls[rig.n_calls - 1].text, "400");
	cr_assert_gt(redis_store_counters(rig.store).redirects, 0);
	end();
}

static void wait_for(const struct redis_node *node, const char *command, const char *part)
{
	for (int i = 0; i < 1000; i++) {
		if (strstr(redis_node_command(node, "%s", command), part) != NULL)
			return;
		rig_run(&rig, 10);
	}
	cr_assert_fail("%s: no %s", command, part);
}

/*
 * … that all masters know, and that knows them all: they elect it when it asks them to. What it has
 * not heard of them by the time its own master dies it never will.
 */
static void add_replica(struct redis_node *replica, const struct redis_node *master)
{
	static const char *const arguments[] = {"--cluster-enabled",
						"yes",
						"--cluster-node-timeout",
						"1500",
						"--cluster-config-file",
						"nodes.conf",
						"--repl-diskless-sync-delay",
						"0",
						NULL};
	char id[41], command[64], known[64];

	redis_node_command(master, "CONFIG SET repl-diskless-sync-delay 0");
	redis_node_start(replica, arguments, NULL);
	redis_node_command(replica, "CLUSTER MEET 127.0.0.1 %u", master->port);
	redis_cluster_id(master, id);
	snprintf(command, sizeof command, "CLUSTER REPLICATE %s", id);
	snprintf(known, sizeof known, "slave %s", id);
	wait_for(replica, command, "OK");
	wait_for(replica, "INFO replication", "master_link_status:up");
	for (size_t i = 0; i < MASTERS; i++) {
		wait_for(&nodes[i], "CLUSTER NODES", known);
		redis_cluster_id(&nodes[i], id);
		wait_for(replica, "CLUSTER NODES", id);
	}
}

Test(redis_cluster, a_dead_master_is_down_and_a_new_one_is_found, .timeout = 100)
{
	struct redis_node *replica = &nodes[MASTERS];

	begin(MASTERS);
	add_replica(replica, &nodes[0]);
	for (int i = 0; rig_wait(&rig, rig_ask(&rig, 0, "SET {06S} 1"))->status != KOVA_OK; i++) {
		cr_assert_lt(i, 100, "the masters agree");
		rig_run(&rig, 100);
	}
	wait_for(replica, "DBSIZE", "1");
	redis_node_kill(&nodes[0]);
	rig_wait_up(&rig, 0, false, 500);
	size_t call = rig_ask(&rig, 0, "INCR {06S}");
	cr_assert_eq(rig_wait(&rig, call)->status, KOVA_ECONN);
	cr_assert_lt(rig_own_ms(&rig.calls[call]), 30);
	rig_wait_up(&rig, 0, true, 30000); /* an election may fail, and takes longer each time */
	/* While the others agree on it, CLUSTERDOWN may still come. */
	for (int i = 0; i < 50 && rig_wait(&rig, rig_ask(&rig, 0, "INCR {06S}"))->status != KOVA_OK;
	     i++)
		rig_run(&rig, 50);
	cr_assert_str_eq(rig.calls[rig.n_calls - 1].text, "2");
	cr_assert_eq(redis_store_shards(rig.store), MASTERS);
	end();
}

Test(redis_cluster, clusterdown_is_down_until_it_is_over, .timeout = 100)
{
	begin(MASTERS);
	uint16_t alive = SLOTS - 1;

	redis_node_kill(&nodes[0]);
	kova_status status;
	do { /* the others notice after the node timeout */
		rig_run(&rig, 50);
		status = rig_wait(&rig, rig_ask(&rig, alive, "GET {unused}"))->status;
	} while (status == KOVA_OK ||
		 (status == KOVA_EREPLY &&
		  redis_store_up(rig.store, redis_store_shard(rig.store, alive))));
	size_t call = rig_ask(&rig, alive, "GET {unused}");
	cr_assert_eq(rig_wait(&rig, call)->status, KOVA_ECONN);
	cr_assert_lt(rig_own_ms(&rig.calls[call]), 30);
	redis_node_again(&nodes[0]);
	rig_wait_up(&rig, alive, true, 8000);
	rig_wait_up(&rig, 0, true, 8000);
	end();
}

/* ---- a fake one ---- */

static struct fake_redis fake;

/* Serves every slot, and answers everything with `data`. */
static void all_slots(struct fake_conn *conn, const struct fake_command *command, void *data)
{
	char text[256];

	if (fake_is(command, "CLUSTER") && command->word[1].len == strlen("SLOTS")) {
		snprintf(text, sizeof text,
			 "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n",
			 conn->server->port);
		fake_send(conn, text);
	} else if (fake_is(command, "CLUSTER")) {
		fake_send(conn, "$18\r\ncluster_state:fail\r\n");
	} else if (!fake_login(conn, command)) {
		fake_send(conn, data);
	}
}

/* What a call ends with when each answer is `says`: known not to be executed, in time. */
static void expect_unexecuted(char *says, const char *error)
{
	rig_init(&rig);
	fake_redis_start(&fake, &rig.loop, all_slots, says);
	snprintf(addresses[0], sizeof addresses[0], "127.0.0.1:%u", fake.port);
	struct redis_conf conf = conf_of(1, 100);
	rig_open(&rig, &conf);
	rig_wait_up(&rig, 7, true, 5000);
	if (strchr(says, '%') != NULL) {
		static char text[128];
		snprintf(text, sizeof text, "-%s 7 127.0.0.1:%u\r\n", error,
			 strstr(says, "%d") ? 1 : fake.port);
		fake.data = text;
	}
	size_t first = rig_ask(&rig, 7, "GET a"), second = rig_ask(&rig, 7, "GET b");
	for (size_t i = first; i <= second; i++) {
		const struct rig_call *call = rig_wait(&rig, i);
		cr_assert_eq(call->status, KOVA_EREPLY, "%s: %d", says, call->status);
		cr_assert_eq(strncmp(call->text, error, strlen(error)), 0, "%s", call->text);
		cr_assert_lt(rig_own_ms(call), 100 + 20);
	}
	cr_assert_lt(fake.n_commands, 200, "%u commands: round and round", fake.n_commands);
	fake_redis_stop(&fake);
	rig_end(&rig);
}

Test(redis_cluster, round_in_circles)
{
	char again[] = "-MOVED %u\r\n", nowhere[] = "-MOVED %d\r\n", ask[] = "-ASK %u\r\n",
	     ask_nowhere[] = "-ASK %d\r\n";
	char broken[] = "-MOVED 7 nonsense\r\n", try_again[] = "-TRYAGAIN later\r\n";
	char down[] = "-CLUSTERDOWN The cluster is down\r\n",
	     unserved[] = "-CLUSTERDOWN Hash slot not served\r\n";

	expect_unexecuted(again, "MOVED");
	expect_unexecuted(nowhere, "MOVED");
	expect_unexecuted(ask, "ASK");
	expect_unexecuted(ask_nowhere, "ASK");
	expect_unexecuted(broken, "MOVED");
	expect_unexecuted(try_again, "TRYAGAIN");
	expect_unexecuted(down, "CLUSTERDOWN");
	expect_unexecuted(unserved, "CLUSTERDOWN");
}

static const char *info;

static void down_and_up(struct fake_conn *conn, const struct fake_command *command, void *data)
{
	if (fake_is(command, "CLUSTER") && command->word[1].len == strlen("INFO"))
		fake_send(conn, info);
	else
		all_slots(conn, command, *(void **)data);
}

static void expect_up_after(const char *says)
{
	const char *answer = "-CLUSTERDOWN The cluster is down\r\n";

	info = "$18\r\ncluster_state:fail\r\n";
	rig_init(&rig);
	fake_redis_start(&fake, &rig.loop, down_and_up, &answer);
	snprintf(addresses[0], sizeof addresses[0], "127.0.0.1:%u", fake.port);
	struct redis_conf conf = conf_of(1, 100);
	rig_open(&rig, &conf);
	rig_wait_up(&rig, 7, true, 5000);
	cr_assert_eq(rig_wait(&rig, rig_ask(&rig, 7, "GET a"))->status, KOVA_EREPLY);
	rig_run(&rig, 600);
	cr_assert(!redis_store_up(rig.store, 0));
	cr_assert_eq(rig.downs, 1);
	info = says;
	answer = "+OK\r\n";
	rig_wait_up(&rig, 7, true, 1000);
	cr_assert_eq(rig_wait(&rig, rig_ask(&rig, 7, "GET a"))->status, KOVA_OK);
	fake_redis_stop(&fake);
	rig_end(&rig);
}

Test(redis_cluster, clusterdown_ends_when_the_node_says_so_or_may_not_say)
{
	expect_up_after("$16\r\ncluster_state:ok\r\n");
	expect_up_after("-NOPERM this user has no permissions to run 'cluster|info'\r\n");
}

static void any_map(struct fake_conn *conn, const struct fake_command *command, void *data)
{
	if (fake_is(command, "CLUSTER"))
		fake_send(conn, data);
	else if (!fake_login(conn, command))
		fake_send(conn, "+OK\r\n");
}

Test(redis_cluster, a_malformed_map_is_no_map)
{
	static const char *const maps[] = {
		"-ERR This instance has cluster support disabled\r\n",
		"*0\r\n",
		"+OK\r\n",
		"*1\r\n:1\r\n",
		"*1\r\n*2\r\n:0\r\n:1\r\n",
		"*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n",
		"*1\r\n*3\r\n:-1\r\n:1\r\n*2\r\n$1\r\nh\r\n:1\r\n",
		"*1\r\n*3\r\n:5\r\n:1\r\n*2\r\n$1\r\nh\r\n:1\r\n",
		"*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\nh\r\n:0\r\n",
		"*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n:7\r\n:1\r\n",
		"*1\r\n*3\r\n:0\r\n:1\r\n*1\r\n$1\r\nh\r\n",
		"*1\r\n*3\r\n:0\r\n:1\r\n$1\r\nh\r\n",
	};

	for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
		rig_init(&rig);
		fake_redis_start(&fake, &rig.loop, any_map, (void *)maps[i]);
		snprintf(addresses[0], sizeof addresses[0], "127.0.0.1:%u", fake.port);
		struct redis_conf conf = conf_of(1, 100);
		rig_open(&rig, &conf);
		rig_run(&rig, 100);
		cr_assert_eq(redis_store_shards(rig.store), 1);
		cr_assert(!redis_store_up(rig.store, redis_store_shard(rig.store, 0)), "%s",
			  maps[i]);
		cr_assert_eq(rig_wait(&rig, rig_ask(&rig, 0, "GET a"))->status, KOVA_ECONN);
		fake_redis_stop(&fake);
		rig_end(&rig);
	}
}

/* ---- closing from within every callback ---- */

static unsigned close_at;

static void close_sometime(struct store_rig *r)
{
	if (r->store == NULL || close_at-- > 0)
		return;
	struct redis_store *store = r->store;
	r->store = NULL;
	redis_store_close(store, NULL, NULL);
}

Test(redis_cluster, closing_is_safe_in_every_callback)
{
	static const char *const says[] = {"+OK\r\n", "-MOVED 7 127.0.0.1:1\r\n",
					   "-CLUSTERDOWN The cluster is down\r\n",
					   "-TRYAGAIN later\r\n", "-ASK 7 127.0.0.1:1\r\n"};

	for (unsigned i = 0; i < sizeof says / sizeof says[0] * 5; i++) {
		rig_init(&rig);
		fake_redis_start(&fake, &rig.loop, all_slots, (void *)says[i / 5]);
		snprintf(addresses[0], sizeof addresses[0], "127.0.0.1:%u", fake.port);
		struct redis_conf conf = conf_of(1, 30);
		rig_open(&rig, &conf);
		close_at = i % 5;
		rig.on_event = close_sometime;
		rig_run(&rig, 30);
		for (int n = 0; n < 4 && rig.store != NULL; n++)
			rig_ask(&rig, 7, "GET a");
		rig_run(&rig, 60);
		fake_redis_stop(&fake);
		rig_end(&rig);
	}
}
