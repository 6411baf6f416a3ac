/*
 * A reload beside the loop. The happy path: on_work() builds and writes the next state from the one in force, in a
 * thread; on_built() swaps it in on the loop and tells the caller; on_free_work() frees what is left, again in a
 * thread, for that takes time too; on_freed() ends. If administration changed the state meanwhile, on_built() goes
 * back to on_work() with the new one, at last on the loop itself. If control_free() came meanwhile, the
 * caller hears nothing and on_freed() frees the control as well.
 */
#include <assert.h>
#include <stdlib.h>

#include "control_own.h"
#include "io/atomic_file.h"

enum { ATTEMPTS_MAX = 3 };

struct reload_job {
	uv_work_t work;
	struct control *c;
	uv_loop_t *loop;
	json_t *policies, *overrides; /* references */
	struct control_load load;
	kova_status status;
	unsigned attempts;
	control_done *on_done;
	void *data;
};

static void on_work(uv_work_t *work)
{
	struct reload_job *job = work->data;

	job->status = control_load_run(&job->load);
}

static void on_free_work(uv_work_t *work)
{
	struct reload_job *job = work->data;

	control_state_unref(job->load.base);
	control_state_unref(job->load.next);
	json_decref(job->policies);
	json_decref(job->overrides);
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
	control_state_unref(job->load.next);
	job->load.next = NULL;
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

static void job_end(struct reload_job *job)
{
	bool done = job->status == KOVA_OK;

	job->c->reloading = false;
	if (!job->c->closed)
		job->on_done(job->status, done ? NULL : &job->load.error, job->data);
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

void control_reload_async(struct control *c, uv_loop_t *loop, json_t *policies, json_t *overrides,
			  control_done *on_done, void *data)
{
	struct reload_job *job = calloc(1, sizeof *job);

	assert(!c->reloading);
	if (job == NULL) {
		struct control_error error = {"out of memory"};

		on_done(KOVA_ENOMEM, &error, data);
		return;
	}
	c->reloading = true;
	c->jobs++;
	*job = (struct reload_job){.c = c,
				   .loop = loop,
				   .policies = json_incref(policies),
				   .overrides = json_incref(overrides),
				   .on_done = on_done,
				   .data = data};
	job->work.data = job;
	job->load = (struct control_load){.policies = policies,
					  .overrides = overrides,
					  .path = c->store.path,
					  .base = control_state_ref(c->state),
					  .clock = c->clock};
	int r = uv_queue_work(loop, &job->work, on_work, on_built);

	assert(r == 0);
}
