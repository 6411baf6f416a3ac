/*
 * Messages to a loop from any thread. They run on the loop, each once, in the order in which they were posted; what a
 * thread did before it posts is seen by whoever runs the message.
 */
#pragma once

#include <pthread.h>
#include <uv.h>

/* Part of what is sent; the sender's until it is posted, then the receiver's. All else about it is up to the two. */
struct message {
	void (*run)(struct message *m);
	struct message *next;
};

struct mailbox {
	uv_async_t async;
	pthread_mutex_t lock;
	struct message *first, **last; /* under the lock */
	void (*on_closed)(void *data);
	void *closed_data;
};

/* For `loop`, which stays alive for it. 0, or libuv's error. On the loop, or before it runs. */
int mailbox_open(struct mailbox *box, uv_loop_t *loop);
/* On the loop, after the last message has run: none may come any more. `on_closed` may be NULL. */
void mailbox_close(struct mailbox *box, void (*on_closed)(void *data), void *data);
/* From any thread. Waits for nobody but others who post. */
void mailbox_post(struct mailbox *box, struct message *m);
