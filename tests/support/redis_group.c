#include "redis_group.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	WORDS_MAX = 64,
	START_TRIES = 1000,
	MEET_TRIES = 200,
	PAUSE_US = 10000,
	PORT_LEAST = 11000,
	PORT_MOST = 21000,
	BUS_OFFSET = 10000
};

static void fail(const char *what)
{
	fprintf(stderr, "redis_group: %s: %s\n", what, strerror(errno));
	abort();
}

static int is_free(uint16_t port)
{
	const int on = 1;
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons(port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		fail("socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	int r = bind(fd, (const struct sockaddr *)&address, sizeof address);
	close(fd);
	return r == 0;
}

/*
 * Not an ephemeral port, nor a bus port that is: those are taken by connections of other tests at
 * any time.
 */
uint16_t redis_group_free_port(void)
{
	for (int tries = 0; tries < 1000; tries++) {
		unsigned random;

		if (getrandom(&random, sizeof random, 0) != sizeof random)
			fail("getrandom");
		uint16_t port = (uint16_t)(PORT_LEAST + random % (PORT_MOST - PORT_LEAST));
		if (is_free(port) && is_free((uint16_t)(port + BUS_OFFSET)))
			return port;
	}
	fail("no free port");
	return 0;
}

/*
 * What every server gets, except one that names a configuration file first: Sentinel writes to its
 * own. It listens on ::1, too, where there is one: "localhost" may be that first.
 */
static size_t usual_words(const struct redis_node *node, const char *port, const char *words[])
{
	const char *usual[] = {
		"redis-server", "--port", port,    "--bind",        "127.0.0.1", "-::1",
		"--save",       "",       "--dir", node->directory, "--logfile", "redis.log",
		"--appendonly", "no"};

	words[0] = usual[0];
	if (node->arguments != NULL && node->arguments[0][0] != '-')
		return 1;
	memcpy(words, usual, sizeof usual);
	return sizeof usual / sizeof usual[0];
}

static void run(const struct redis_node *node)
{
	char port[16];
	const char *words[WORDS_MAX] = {NULL};
	int null = open("/dev/null", O_RDWR);

	snprintf(port, sizeof port, "%u", node->port);
	size_t n = usual_words(node, port, words);
	for (size_t i = 0;
	     node->arguments != NULL && node->arguments[i] != NULL && n < WORDS_MAX - 1; i++)
		words[n++] = node->arguments[i];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
		_exit(126);
	execvp(words[0], (char *const *)words);
	_exit(127);
}

static void launch(struct redis_node *node)
{
	node->pid = fork();
	if (node->pid < 0)
		fail("fork");
	if (node->pid == 0)
		run(node);
	for (int i = 0; i < START_TRIES; i++) {
		if (strstr(redis_node_command(node, "PING"), "PONG") != NULL)
			return;
		if (waitpid(node->pid, NULL, WNOHANG) != 0)
			fail("redis-server ended");
		usleep(PAUSE_US);
	}
	fail("redis-server does not answer");
}

void redis_node_start(struct redis_node *node, const char *const *arguments,
		      const char *const *client)
{
	if (node->port == 0)
		node->port = redis_group_free_port();
	node->arguments = arguments;
	node->client = client;
	strcpy(node->directory, "/tmp/kova-redis-XXXXXX");
	if (mkdtemp(node->directory) == NULL)
		fail("mkdtemp");
	launch(node);
}

void redis_node_kill(struct redis_node *node)
{
	if (node->pid == 0)
		return;
	kill(node->pid, SIGKILL);
	waitpid(node->pid, NULL, 0);
	node->pid = 0;
}

void redis_node_again(struct redis_node *node)
{
	launch(node);
}

void redis_node_end(struct redis_node *node)
{
	char line[128];

	redis_node_kill(node);
	snprintf(line, sizeof line, "rm -rf '%s'", node->directory);
	if (system(line) != 0)
		fail(line);
}

static void run_client(const struct redis_node *node, char *command, int out)
{
	char port[16];
	const char *words[WORDS_MAX] = {"redis-cli", "-p", port};
	size_t n = 3;

	snprintf(port, sizeof port, "%u", node->port);
	for (size_t i = 0; node->client != NULL && node->client[i] != NULL && n < WORDS_MAX - 1;
	     i++)
		words[n++] = node->client[i];
	for (char *rest = command, *word; (word = strsep(&rest, " ")) != NULL && n < WORDS_MAX - 1;)
		words[n++] = word;
	if (dup2(out, 1) < 0 || dup2(out, 2) < 0)
		_exit(126);
	execvp(words[0], (char *const *)words);
	_exit(127);
}

const char *redis_node_command(const struct redis_node *node, const char *format, ...)
{
	static char answer[65536];
	char command[1024];
	size_t len = 0;
	int fds[2], status;
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof command, format, args);
	va_end(args);
	if (pipe2(fds, O_CLOEXEC) != 0)
		fail("pipe");
	pid_t pid = fork();
	if (pid < 0)
		fail("fork");
	if (pid == 0)
		run_client(node, command, fds[1]);
	close(fds[1]);
	for (ssize_t got; (got = read(fds[0], answer + len, sizeof answer - 1 - len)) > 0;)
		len += (size_t)got;
	close(fds[0]);
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) >= 126)
		fail("redis-cli (is it installed?)");
	while (len > 0 && answer[len - 1] == '\n')
		len--;
	answer[len] = '\0';
	return answer;
}

void redis_cluster_id(const struct redis_node *node, char *ret_id)
{
	snprintf(ret_id, 41, "%s", redis_node_command(node, "CLUSTER MYID"));
}

/* An introduction that is not answered within the time-out of a node, on a busy machine, is forgotten. */
static void meet(const struct redis_node *nodes, size_t n)
{
	for (size_t i = 1; i < n; i++)
		redis_node_command(&nodes[i], "CLUSTER MEET 127.0.0.1 %u", nodes[0].port);
}

void redis_cluster_start(struct redis_node *nodes, size_t n)
{
	static const char *const arguments[] = {"--cluster-enabled",
						"yes",
						"--cluster-node-timeout",
						"1500",
						"--cluster-config-file",
						"nodes.conf",
						NULL};

	for (size_t i = 0; i < n; i++) {
		redis_node_start(&nodes[i], arguments, NULL);
		redis_node_command(&nodes[i], "CLUSTER ADDSLOTSRANGE %zu %zu", 16384 * i / n,
				   16384 * (i + 1) / n - 1);
		redis_node_command(&nodes[i], "CLUSTER SET-CONFIG-EPOCH %zu", i + 1);
	}
	meet(nodes, n);
	for (size_t i = 0; i < n; i++) {
		int tries = 0;

		while (strstr(redis_node_command(&nodes[i], "CLUSTER INFO"), "cluster_state:ok") ==
			       NULL ||
		       strstr(redis_node_command(&nodes[i], "CLUSTER INFO"),
			      "cluster_slots_ok:16384") == NULL) {
			if (tries++ == START_TRIES)
				fail("the cluster does not come up");
			if (tries % MEET_TRIES == 0)
				meet(nodes, n);
			usleep(PAUSE_US);
		}
	}
}
