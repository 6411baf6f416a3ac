/* Real sentinels: the master is found, and found again after a failover. Mostly waits. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_redis.h"
#include "redis_group.h"
#include "store_rig.h"

enum { SENTINELS = 3, RECOVERY_MS = 5000, DOWN_AFTER_MS = 1000 };

static struct store_rig rig;
static struct redis_node master, replica, sentinels[SENTINELS];
static char addresses[SENTINELS][32];
static char *all[SENTINELS] = {addresses[0], addresses[1], addresses[2]};

static struct redis_conf conf_of(size_t n)
{
	return (struct redis_conf){.mode = REDIS_SENTINEL,
				   .master = (char *)"mymaster",
				   .addresses = all,
				   .n_addresses = n,
				   .timeout_ms = 100,
				   .connect_timeout_ms = 500};
}

static void start_sentinel(struct redis_node *node, char *ret_file, size_t size)
{
	static const char *arguments[SENTINELS][3];
	size_t n = (size_t)(node - sentinels);

	node->port = redis_group_free_port();
	snprintf(ret_file, size, "/tmp/kova-sentinel-%d-%u.conf", (int)getpid(), node->port);
	FILE *file = fopen(ret_file, "w");
	fprintf(file,
		"port %u\nbind 127.0.0.1\ndir /tmp\nlogfile /dev/null\nsentinel monitor mymaster "
		"127.0.0.1 %u 2\n"
		"sentinel down-after-milliseconds mymaster %d\nsentinel failover-timeout mymaster "
		"3000\n",
		node->port, master.port, DOWN_AFTER_MS);
	fclose(file);
	arguments[n][0] = ret_file;
	arguments[n][1] = "--sentinel";
	redis_node_start(node, arguments[n], NULL);
}

static void start_all(char files[SENTINELS][64])
{
	static const char *arguments[] = {
		"--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", NULL, NULL};
	static const char *const plain[] = {"--repl-diskless-sync-delay", "0", NULL};
	static char port[16];

	redis_node_start(&master, plain, NULL);
	snprintf(port, sizeof port, "%u", master.port);
	arguments[4] = port;
	redis_node_start(&replica, arguments, NULL);
	for (int i = 0; i < SENTINELS; i++) {
		start_sentinel(&sentinels[i], files[i], 64);
		snprintf(addresses[i], sizeof addresses[i], "127.0.0.1:%u", sentinels[i].port);
	}
	/* They know each other and the replica. */
	for (int tries = 0; tries < 1000; tries++) {
		if (strstr(redis_node_command(&sentinels[0], "INFO sentinel"),
			   "slaves=1,sentinels=3") != NULL &&
		    strstr(redis_node_command(&replica, "INFO replication"),
			   "master_link_status:up") != NULL)
			return;
		usleep(10000);
	}
	cr_assert_fail("the sentinels do not find each other");
}

static void end_all(char files[SENTINELS][64])
{
	for (int i = 0; i < SENTINELS; i++) {
		redis_node_end(&sentinels[i]);
		unlink(files[i]);
	}
	redis_node_end(&replica);
	redis_node_end(&master);
}

Test(redis_sentinel, follows_a_failover, .timeout = 100)
{
	char files[SENTINELS][64];
	struct redis_conf conf = conf_of(SENTINELS);

	start_all(files);
	rig_init(&rig);
	rig_open(&rig, &conf);
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	cr_assert_eq(rig_wait(&rig, rig_ask(&rig, 0, "SET a 1"))->status, KOVA_OK);
	cr_assert_str_eq(redis_node_command(&master, "GET a"), "1");

	/* By hand, so that the master lives on as a replica: READONLY is the news. */
	cr_assert_str_eq(redis_node_command(&sentinels[0], "SENTINEL FAILOVER mymaster"), "OK");
	uint64_t begun = uv_hrtime();
	bool promoted = false, arrived = false;
	for (unsigned n = 2; !promoted || !arrived; n++) {
		/* Before it is promoted, the master's writes arrive there as well. */
		promoted = strstr(redis_node_command(&replica, "ROLE"), "master") != NULL;
		if (!promoted)
			begun = uv_hrtime();
		rig_ask(&rig, 0, "SET a %u", n);
		rig_run(&rig, 20);
		arrived = strtoul(redis_node_command(&replica, "GET a"), NULL, 10) == n;
		cr_assert_lt(uv_hrtime() - begun, RECOVERY_MS * UINT64_C(1000000) +
							  3 * DOWN_AFTER_MS * UINT64_C(1000000));
	}
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	cr_assert_eq(rig_wait(&rig, rig_ask(&rig, 0, "SET b 1"))->status, KOVA_OK);
	cr_assert_str_eq(redis_node_command(&replica, "GET b"), "1");
	rig_end(&rig);
	end_all(files);
}

Test(redis_sentinel, follows_when_the_master_dies_and_a_sentinel_too, .timeout = 100)
{
	char files[SENTINELS][64];
	struct redis_conf conf = conf_of(SENTINELS);

	start_all(files);
	rig_init(&rig);
	rig_open(&rig, &conf);
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	redis_node_kill(&sentinels[0]);
	kill(master.pid, SIGSTOP);
	rig_run(&rig, 150);
	size_t first = rig_ask(&rig, 0, "SET a 1");
	rig_wait(&rig, first);
	rig_wait_up(&rig, 0, false, 1000);
	for (int i = 0; i < 1500 && strstr(redis_node_command(&replica, "ROLE"), "master") == NULL;
	     i++)
		rig_run(&rig, 10);
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	cr_assert_eq(rig_wait(&rig, rig_ask(&rig, 0, "SET b 1"))->status, KOVA_OK);
	cr_assert_str_eq(redis_node_command(&replica, "GET b"), "1");

	/*
	 * The old one comes back and believes for a while that it is the master: nobody goes there.
	 */
	kill(master.pid, SIGCONT);
	for (int i = 0; i < 100; i++) {
		rig_ask(&rig, 0, "SET c %d", i);
		rig_run(&rig, 10);
	}
	cr_assert_str_eq(redis_node_command(&replica, "GET c"), "99");
	rig_end(&rig);
	end_all(files);
}

/* ---- fake sentinels ---- */

static struct fake_redis liars[SENTINELS], servers[2];

static void names(struct fake_conn *conn, const struct fake_command *command, void *data)
{
	const struct fake_redis *const *named = data;
	char text[128], port[8];

	if (fake_is(command, "SENTINEL") && *named == NULL) {
		fake_send(conn, "*-1\r\n");
	} else if (fake_is(command, "SENTINEL")) {
		int len = snprintf(port, sizeof port, "%u", (*named)->port);
		snprintf(text, sizeof text, "*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n", len, port);
		fake_send(conn, text);
	} else if (!fake_login(conn, command)) {
		fake_send(conn, "-ERR no\r\n");
	}
}

Test(redis_sentinel, a_lone_voice_moves_nobody_away_from_a_master_that_answers)
{
	const struct fake_redis *named[SENTINELS] = {NULL, NULL, NULL};
	struct redis_conf conf = conf_of(SENTINELS);

	rig_init(&rig);
	for (int i = 0; i < 2; i++)
		fake_redis_start(&servers[i], &rig.loop, NULL, NULL);
	for (int i = 0; i < SENTINELS; i++) {
		fake_redis_start(&liars[i], &rig.loop, names, &named[i]);
		snprintf(addresses[i], sizeof addresses[i], "127.0.0.1:%u", liars[i].port);
	}
	rig_open(&rig, &conf);
	rig_run(&rig, 300);
	cr_assert(!redis_store_up(rig.store, 0), "nobody has named a master");
	cr_assert_eq(rig_wait(&rig, rig_ask(&rig, 0, "GET a"))->status, KOVA_ECONN);

	named[0] = named[1] = named[2] = &servers[0];
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	named[0] = &servers[1];
	rig_run(&rig, 1500);
	cr_assert_eq(servers[1].n_conns, 0);
	named[1] = &servers[1];
	rig_run(&rig, 1500);
	cr_assert_gt(servers[1].n_conns, 0, "two of three");
	rig_wait_up(&rig, 0, true, RECOVERY_MS);
	size_t call = rig_ask(&rig, 0, "GET a");
	unsigned before = servers[1].n_commands;
	cr_assert_eq(rig_wait(&rig, call)->status, KOVA_OK);
	cr_assert_gt(servers[1].n_commands, before);

	for (int i = 0; i < SENTINELS; i++)
		fake_redis_stop(&liars[i]);
	fake_redis_stop(&servers[0]);
	fake_redis_stop(&servers[1]);
	rig_end(&rig);
}
