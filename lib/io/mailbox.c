#include "io/mailbox.h"

#include <assert.h>
#include <stddef.h>

static struct message *take_all(struct mailbox *box)
{
	pthread_mutex_lock(&box->lock);
	struct message *first = box->first;

	box->first = NULL;
	box->last = &box->first;
	pthread_mutex_unlock(&box->lock);
	return first;
}

/* libuv may call once for many posts. What is posted meanwhile comes with the next call. */
static void on_async(uv_async_t *async)
{
	struct message *m = take_all(async->data);

	while (m != NULL) {
		struct message *next = m->next; /* `m` may be gone afterwards */

		m->run(m);
		m = next;
	}
}

int mailbox_open(struct mailbox *box, uv_loop_t *loop)
{
	int r = uv_async_init(loop, &box->async, on_async);

	if (r != 0)
		return r;
	box->async.data = box;
	box->first = NULL;
	box->last = &box->first;
	pthread_mutex_init(&box->lock, NULL);
	return 0;
}

static void on_async_closed(uv_handle_t *async)
{
	struct mailbox *box = async->data;

	assert(box->first == NULL);
	pthread_mutex_destroy(&box->lock);
	if (box->on_closed != NULL)
		box->on_closed(box->closed_data);
}

void mailbox_close(struct mailbox *box, void (*on_closed)(void *data), void *data)
{
	box->on_closed = on_closed;
	box->closed_data = data;
	uv_close((uv_handle_t *)&box->async, on_async_closed);
}

void mailbox_post(struct mailbox *box, struct message *m)
{
	m->next = NULL;
	pthread_mutex_lock(&box->lock);
	*box->last = m;
	box->last = &m->next;
	pthread_mutex_unlock(&box->lock);
	uv_async_send(&box->async);
}
