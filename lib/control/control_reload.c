/*
 * A reload, or a take of much that came by gossip, beside the loop. The happy path: on_work() builds and writes the next state from the one in force, in a
 * thread; on_built() swaps it in on the loop and tells the caller; on_free_work() frees what is left, again in a
 * thread, for that takes time too; on_freed() ends. If administration changed the state meanwhile, on_built() goes
 * back to on_work() with the new one, at last on the loop itself. If control_free() came meanwhile, the
 * caller hears nothing and on_freed() frees the control as well.
 */
#include <assert.h>
#include <stdlib.h>

#include "control/control_own.h"
#include "io/atomic_file.h"

enum { ATTEMPTS_MAX = 3, FEW = 64 /* writes that go to the journal */ };

struct reload_job {
	uv_work_t work;
	struct control *c;
	uv_loop_t *loop;
	struct rule_lists lists; /* references */
	struct control_load load;
	kova_status status;
	unsigned attempts;
	control_done *on_done;
	void *data;
};

static void lists_unref(struct rule_lists *lists)
{
	json_decref(lists->policies);
	json_decref(lists->overrides);
	json_decref(lists->pools);
}

static void on_work(uv_work_t *work)
{
	struct reload_job *job = work->data;

	job->status = control_load_run(&job->load);
}

static void on_free_work(uv_work_t *work)
{
	struct reload_job *job = work->data;

	control_state_unref(job->load.base);
	control_load_release(&job->load);
	lists_unref(&job->lists);
}

static void on_freed(uv_work_t *work, int status)
{
	struct reload_job *job = work->data;
	struct control *c = job->c;

	(void)status; /* UV_ECANCELED: nobody cancels */
	free(job);
	if (--c->jobs == 0 && c->closed)
		control_destroy(c);
}

/* Gives up what an attempt has built. */
static void job_discard(struct reload_job *job)
{
	if (job->load.next == NULL)
		return;
	if (job->load.changed)
		atomic_file_abort(job->c->store.path);
	control_load_release(&job->load);
}

/* The state in force as the base of the next attempt. */
static void job_rebase(struct reload_job *job)
{
	job_discard(job);
	control_state_unref(job->load.base);
	job->load.base = control_state_ref(job->c->state);
	job->load.clock = job->c->clock;
	job->attempts++;
}

static void job_begin(struct reload_job *job);

/* One that waited for this one's end. */
static void next_begin(struct control *c)
{
	struct reload_job *next = c->waiting;

	if (next == NULL || c->reloading)
		return;
	c->waiting = NULL;
	job_begin(next);
}

static void job_end(struct reload_job *job)
{
	bool done = job->status == KOVA_OK;

	job->c->reloading = false;
	if (!job->c->closed)
		job->on_done(job->status, done ? NULL : &job->load.error, job->data);
	next_begin(job->c);
	int r = uv_queue_work(job->loop, &job->work, on_free_work, on_freed);

	assert(r == 0); /* fails only without a callback */
}

static void on_built(uv_work_t *work, int status)
{
	struct reload_job *job = work->data;
	struct control *c = job->c;

	(void)status;
	if (c->closed) {
		job_discard(job);
		job_end(job);
		return;
	}
	if (c->state != job->load.base) {
		job_rebase(job);
		if (job->attempts < ATTEMPTS_MAX) {
			int r = uv_queue_work(job->loop, &job->work, on_work, on_built);

			assert(r == 0);
			return;
		}
		on_work(&job->work);
	}
	if (job->status == KOVA_OK)
		job->status = control_load_commit(c, &job->load);
	job_end(job);
}

static void job_begin(struct reload_job *job)
{
	struct control *c = job->c;

	c->reloading = true;
	job->load.path = c->store.path;
	job->load.node = c->node;
	job->load.base = control_state_ref(c->state);
	job->load.clock = c->clock;
	int r = uv_queue_work(job->loop, &job->work, on_work, on_built);

	assert(r == 0);
}

/* Takes over the references to the JSON. */
static void job_start(struct control *c, const struct reload_job *parts)
{
	struct reload_job *job = malloc(sizeof *job);

	if (job == NULL) {
		struct control_error error = {"out of memory"};

		struct rule_lists lists = parts->lists;

		lists_unref(&lists);
		parts->on_done(KOVA_ENOMEM, &error, parts->data);
		return;
	}
	*job = *parts;
	job->c = c;
	job->work.data = job;
	c->jobs++;
	if (!c->reloading) {
		job_begin(job);
		return;
	}
	assert(c->waiting == NULL);
	c->waiting = job;
}

void control_reload_async(struct control *c, uv_loop_t *loop, struct rule_lists lists,
			  control_done *on_done, void *data)
{
	const struct reload_job parts = {.loop = loop,
					 .lists = {json_incref(lists.policies),
						   json_incref(lists.overrides),
						   json_incref(lists.pools)},
					 .load = {.of_file = true, .lists = lists},
					 .on_done = on_done,
					 .data = data};

	job_start(c, &parts);
}

void control_take_async(struct control *c, uv_loop_t *loop, struct control_item *const *items,
			size_t n, control_done *on_done, void *data)
{
	bool few = n <= FEW && !control_store_is_long(&c->store);
	const struct reload_job parts = {.loop = loop,
					 .load = {.items = items, .n_items = n, .few = few},
					 .on_done = on_done,
					 .data = data};

	job_start(c, &parts);
}
