/*
 * Several redis-servers of a test on loopback ports: a Cluster, or a master with a replica and
 * sentinels, or one with TLS. Each in a directory of its own, dying with the test.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { REDIS_GROUP_MAX = 8 };

struct redis_node {
	pid_t pid; /* 0: does not run */
	uint16_t port;
	char directory[64];
	/*
	 * of redis-server, NULL-terminated; borrowed. With a configuration file first they are all
	 * that it gets
	 */
	const char *const *arguments;
	const char *const
		*client; /* of redis-cli (login, TLS), NULL-terminated; borrowed; NULL: none */
};

/* A port that nobody listened on just now, nor on the Cluster bus' that goes with it. */
uint16_t redis_group_free_port(void);

/* Starts a server on a free port, or on node->port if that is set, and waits until it answers. */
void redis_node_start(struct redis_node *node, const char *const *arguments,
		      const char *const *client);
void redis_node_kill(struct redis_node *node);  /* SIGKILL; its directory and port stay */
void redis_node_again(struct redis_node *node); /* starts it again */
void redis_node_end(struct redis_node *node);   /* kills it and removes its directory */

/*
 * What redis-cli prints for the words of `format`, after printf, without the last newline; static.
 * Errors too: the test fails only if redis-cli can't be run.
 */
const char *redis_node_command(const struct redis_node *node, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A Cluster of `n` masters with the slots spread evenly; waits until all say that it is ok. */
void redis_cluster_start(struct redis_node *nodes, size_t n);
/* The id of a Cluster node; at least 41 bytes. */
void redis_cluster_id(const struct redis_node *node, char *ret_id);
