/*
 * Nodes that gossip, in virtual time: a network that loses, delays, doubles and is cut, nodes that pause, crash and come
 * back, clocks that are wrong. What each holds is compared with a list of all writes.
 */
#pragma once

#include "core/gossip.h"
#include "core/hlc.h"
#include "gossip_broken.h"
#include "world.h"

enum { NET_REGIONS = 3, NET_QUOTAS = 4096 };

enum { NET_SKEW_MS = 250, NET_IDS_MAX = 64, NET_HEADERS = 28 /* IPv4 and UDP */ };

/* An item as a node keeps it. */
struct net_item {
	char id[16], value[24], who[12], writer[16];
	uint64_t stamp;
};

struct net_node {
	struct net *net;
	unsigned number;
	char name[16];
	struct gossip *g;                    /* NULL: it is down */
	struct net_item *items[NET_IDS_MAX]; /* what it has on disk, by number of the id */
	struct gossip_refusal refusals[GOSSIP_REFUSALS_MAX]; /* on disk, too */
	size_t n_refusals;
	struct hlc clock;
	int64_t ahead_ms; /* its wall clock */
	unsigned part;    /* of the network; nodes of different parts don't hear each other */
	bool paused;
	uint64_t timer; /* the number of the event that counts */
	uint64_t bytes_out, bytes_in, datagrams_out;
	uint32_t
		granted[NET_QUOTAS]; /* the newest seq that came, since it started; of its region */
};

/* The newest grant of a region's share of a quota that was committed, and the one before. */
struct net_grant {
	uint32_t seq;
	uint64_t decided_us[2]; /* by seq % 2 */
};

struct net {
	struct world world;
	struct net_node *nodes;
	unsigned n;
	uint64_t delay_us, lose_one_in, double_one_in;
	unsigned cut_a, cut_b; /* the link between these two is cut, when they differ */
	struct net_item
		*newest[NET_IDS_MAX]; /* the write that must win, of those by right clocks */
	uint64_t deaths, suspicions;  /* of nodes that were up, as seen by others */
	uint64_t n_datagrams;
	bool late;     /* who was not there when a write was refused may take it, for a while */
	bool regional; /* node 0 is a coordinator, the others are of regions by their number */
	struct net_grant grants[NET_QUOTAS]; /* quota q is of region q % NET_REGIONS */
	bool overrun;              /* more grants than a node can know: one may come again */
	uint64_t keep_ms, late_ms; /* of grants; and how long after that one may still come */
	struct gossip_out out;
	uint64_t trace; /* a hash of all that happened */
};

void net_init(struct net *net, unsigned n, uint64_t seed, bool logging);
void net_release(struct net *net);

/* Starts a node that is down, with the items it has; its seed is node 0, or none. */
void net_start(struct net *net, unsigned i, bool seeded);
/* It is gone, as by kill -9. `wiped`: what it had on disk as well. */
void net_crash(struct net *net, unsigned i, bool wiped);
void net_pause(struct net *net, unsigned i, bool paused);

/* Writes id `id`; `text` empty: deletes it. `forced`: not by administration, but at a load of the file. False: refused. */
bool net_write(struct net *net, unsigned i, unsigned id, const char *text, bool forced);
/* As a load of the file does that remembers no other: with stamp 0. */
void net_write_first(struct net *net, unsigned i, unsigned id, const char *text);

/* Node 0 decides a grant of quota `q`; a transaction carries it, and is committed or not. */
void net_grant(struct net *net, unsigned q, bool committed);
/* Nodes that are up, of the region of `q`, and have not its newest grant. */
unsigned net_without_grant(const struct net *net, unsigned q);

void net_run(struct net *net, uint64_t seconds_ms);

/* How many nodes that are up hold the newest write of `id`. */
unsigned net_holders(const struct net *net, unsigned id);
unsigned net_up(const struct net *net);
/* Reports a violation unless all that are up hold the same, the newest, of every id. */
void net_check_items(struct net *net);
/* Reports a violation unless all that are up know all that are up, and nobody else, as alive. */
void net_check_members(struct net *net);
