/*
 * Streams of gossip (core/gossip_bulk.h) over TCP. Each side says hello with a nonce; after that all is in frames of length,
 * body and tag, where the tag covers both nonces, the side and the number of the frame: nothing can be replayed,
 * left out or put in. For gossip_udp.c only.
 */
#pragma once

#include <uv.h>

#include "core/gossip_bulk.h"
#include "io/gossip_seal.h"
#include "io/gossip_udp.h"

struct gossip_streams;

struct gossip_stream_user {
	uv_loop_t *loop;
	struct gossip *core;
	void (*part)(void *data, struct slice part); /* of an answer to us */
	void (*reject)(void *data, enum gossip_rejection why);
	const struct gossip_keys *(*keys)(void *data);
	void *data;
};

/* Listens at `address`. 0, or libuv's error. */
int gossip_streams_open(const struct gossip_stream_user *user, const struct sockaddr *address,
			struct gossip_streams **ret_streams);
void gossip_streams_close(struct gossip_streams *s, void (*on_closed)(void *data), void *data);

/* Fetches what differs from the node at `address`, unless something is being fetched. */
void gossip_streams_pull(struct gossip_streams *s, const struct sockaddr *address);
