#include "tour.h"

#include <assert.h>

#include "agent.h"

static void run(struct message *m);

/* To the next loop, or home. */
static void go_on(struct tour *t)
{
	t->at = t->at->next;
	t->message.run = run;
	mailbox_post(t->at->mailbox, &t->message);
}

static void come_home(struct tour *t)
{
	assert(t->home->tours > 0);
	t->home->tours--;
	t->done(t);
}

static void run(struct message *m)
{
	struct tour *t = (struct tour *)m;

	if (t->at == t->home) {
		come_home(t);
		return;
	}
	t->visit(t, t->at);
	go_on(t);
}

void tour_start(struct tour *t, struct agent *home, void (*visit)(struct tour *t, struct agent *a),
		void (*done)(struct tour *t))
{
	t->home = t->at = home;
	t->visit = visit;
	t->done = done;
	home->tours++;
	visit(t, home);
	if (home->next == NULL)
		come_home(t);
	else
		go_on(t);
}
