/*
 * What loops in threads say to each other: mailboxes, tours, the policies and tokens that follow the owner's.
 * A program of its own, without Criterion, so that it also runs under ThreadSanitizer.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "check.h"
#include "control/control.h"
#include "control/control_state.h"
#include "io/auth.h"
#include "tour.h"

enum { LOOPS = 4, MESSAGES = 20000, TOURS = 200, CHANGES = 30 };

struct place {
	struct agent agent; /* first */
	uv_loop_t loop;
	struct mailbox mailbox;
	uv_thread_t thread;
	struct message end;
	unsigned heard[LOOPS]; /* the last number from each */
	unsigned long visits;
};

static struct place places[LOOPS];

/* ---- Loops ---- */

static void run_loop(void *data)
{
	struct place *p = data;

	uv_run(&p->loop, UV_RUN_DEFAULT);
}

static void run_end(struct message *m)
{
	struct place *p = (struct place *)((char *)m - offsetof(struct place, end));

	mailbox_close(&p->mailbox, NULL, NULL);
}

static void open_places(void)
{
	memset(places, 0, sizeof places);
	for (unsigned i = 0; i < LOOPS; i++) {
		struct place *p = &places[i];

		CHECK(uv_loop_init(&p->loop) == 0 && mailbox_open(&p->mailbox, &p->loop) == 0);
		p->agent.loop = &p->loop;
		p->agent.mailbox = &p->mailbox;
		p->agent.index = i;
		p->agent.owner = i > 0 ? &places[0].agent : NULL;
		p->agent.next = &places[(i + 1) % LOOPS].agent;
	}
}

static void start_places(unsigned first)
{
	for (unsigned i = first; i < LOOPS; i++)
		CHECK(uv_thread_create(&places[i].thread, run_loop, &places[i]) == 0);
}

static void end_places(unsigned first)
{
	for (unsigned i = first; i < LOOPS; i++) {
		places[i].end.run = run_end;
		mailbox_post(&places[i].mailbox, &places[i].end);
		uv_thread_join(&places[i].thread);
		CHECK(uv_loop_close(&places[i].loop) == 0);
	}
}

/* ---- Mailboxes: every message once, and those of one sender in their order ---- */

struct numbered {
	struct message message; /* first */
	struct place *to;
	unsigned from, number;
};

static void run_numbered(struct message *m)
{
	struct numbered *n = (struct numbered *)m;

	CHECK(n->to->heard[n->from] + 1 == n->number);
	n->to->heard[n->from] = n->number;
	free(n);
}

static void post_many(void *data)
{
	const struct place *from = data;

	for (unsigned number = 1; number <= MESSAGES; number++) {
		struct numbered *n = calloc(1, sizeof *n);

		CHECK(n != NULL);
		n->message.run = run_numbered;
		n->to = &places[number % 2];
		n->from = from->agent.index;
		n->number = (number + 1) / 2;
		mailbox_post(&n->to->mailbox, &n->message);
	}
}

static void check_mailboxes(void)
{
	uv_thread_t senders[LOOPS];

	open_places();
	start_places(0);
	for (unsigned i = 0; i < LOOPS; i++)
		CHECK(uv_thread_create(&senders[i], post_many, &places[i]) == 0);
	for (unsigned i = 0; i < LOOPS; i++)
		uv_thread_join(&senders[i]);
	end_places(0);
	for (unsigned i = 0; i < LOOPS; i++)
		CHECK(places[0].heard[i] == MESSAGES / 2 && places[1].heard[i] == MESSAGES / 2);
}

/* ---- Tours: from every loop at once, each visits every loop once and comes home ---- */

struct counted {
	struct tour tour; /* first */
	unsigned visits[LOOPS], left;
};

static struct counted counted[LOOPS];
static atomic_uint tours_left;

static void visit_counted(struct tour *t, struct agent *a)
{
	struct counted *c = (struct counted *)t;

	c->visits[a->index]++;
	((struct place *)a)->visits++;
}

static void on_counted(struct tour *t)
{
	struct counted *c = (struct counted *)t;

	CHECK(t->home == &places[c - counted].agent && t->home->tours == 0);
	for (unsigned i = 0; i < LOOPS; i++)
		CHECK(c->visits[i] == TOURS - c->left + 1);
	atomic_fetch_sub(&tours_left, 1);
	if (--c->left > 0)
		tour_start(t, t->home, visit_counted, on_counted);
}

static struct message starts[LOOPS];

static void run_start(struct message *m)
{
	unsigned i = (unsigned)(m - starts);

	tour_start(&counted[i].tour, &places[i].agent, visit_counted, on_counted);
}

static void check_tours(void)
{
	open_places();
	start_places(0);
	atomic_store(&tours_left, LOOPS * TOURS);
	for (unsigned i = 0; i < LOOPS; i++) {
		counted[i].left = TOURS;
		starts[i].run = run_start;
		mailbox_post(&places[i].mailbox, &starts[i]);
	}
	while (atomic_load(&tours_left) > 0)
		(void)usleep(1000);
	end_places(0);
	for (unsigned i = 0; i < LOOPS; i++)
		CHECK(places[i].visits == LOOPS * TOURS);
}

/* Alone, a tour is over when it has begun. */
static void check_alone(void)
{
	memset(places, 0, sizeof places);
	counted[0] = (struct counted){.left = 1};
	atomic_store(&tours_left, 1);
	counted[0].visits[0] = TOURS - 1;
	for (unsigned i = 1; i < LOOPS; i++)
		counted[0].visits[i] = TOURS;
	tour_start(&counted[0].tour, &places[0].agent, visit_counted, on_counted);
	CHECK(atomic_load(&tours_left) == 0);
}

/* ---- What follows the owner: changed here, looked at there, at the same time ---- */

struct spread {
	struct tour tour; /* first */
	struct control *control;
	struct control_state *state;
	struct auth *auth;
	const char *tokens_path;
	unsigned changes;
};

static unsigned limit_of(const struct control *c)
{
	return (unsigned)catalogue_policy(control_catalogue(c), SLICE("p"))->levels[0].limit.limit;
}

static void write_tokens(const struct spread *s)
{
	FILE *f = fopen(s->tokens_path, "we");

	CHECK(f != NULL && fprintf(f, "name TOKEN-%u\n", s->changes) > 0 && fclose(f) == 0);
}

static struct slice token(unsigned change, char ret_text[static 32])
{
	return (struct slice){ret_text, (size_t)snprintf(ret_text, 32, "TOKEN-%u", change)};
}

static void visit_spread(struct tour *t, struct agent *a)
{
	struct spread *s = (struct spread *)t;
	char text[32];

	if (a->owner == NULL)
		return;
	CHECK(limit_of(a->control) == s->changes);
	control_follow(a->control, s->state);
	CHECK(limit_of(a->control) == s->changes + 1);
	CHECK(auth_find(a->auth, token(s->changes + 1, text)) == NULL);
	CHECK(auth_follow(a->auth, s->auth) == KOVA_OK);
	CHECK(auth_find(a->auth, token(s->changes + 1, text)) != NULL);
	CHECK(auth_find(a->auth, token(s->changes, text)) == NULL);
}

static void change_again(struct spread *s);

static void on_spread(struct tour *t)
{
	struct spread *s = (struct spread *)t;

	control_state_unref(s->state);
	if (++s->changes < CHANGES)
		change_again(s);
	else
		mailbox_close(&places[0].mailbox, NULL, NULL);
}

static void change_again(struct spread *s)
{
	json_t *policy = json_pack("{s:i,s:s}", "limit", (int)s->changes + 1, "per", "1h");
	struct control_error error;
	struct buf errors = {0};

	CHECK(control_put_policy(s->control, SLICE("p"), policy, "local", &error) == KOVA_OK);
	json_decref(policy);
	s->changes++;
	write_tokens(s);
	s->changes--;
	CHECK(auth_reload(s->auth, &(struct auth_terms){.tokens_file = s->tokens_path}, &errors) ==
	      KOVA_OK);
	s->state = control_snapshot(s->control);
	tour_start(&s->tour, &places[0].agent, visit_spread, on_spread);
}

/* What verdicts do on the other loops meanwhile. */
static void on_idle(uv_idle_t *idle)
{
	const struct agent *a = idle->data;
	struct catalogue *c = catalogue_ref(control_catalogue(a->control));
	char text[32];

	CHECK(limit_of(a->control) > 0);
	(void)auth_find(a->auth, token(7, text));
	catalogue_unref(c);
}

static struct message stops[LOOPS];
static uv_idle_t idles[LOOPS];

static void run_stop(struct message *m)
{
	uv_close((uv_handle_t *)&idles[m - stops], NULL);
}

static void open_followers(const struct spread *s)
{
	struct buf errors = {0};

	for (unsigned i = 1; i < LOOPS; i++) {
		struct agent *a = &places[i].agent;

		a->control = control_replica_new(s->control);
		a->auth = auth_new(&(struct auth_terms){0}, &errors);
		CHECK(a->control != NULL && a->auth != NULL);
		CHECK(!auth_required(a->auth));
		CHECK(auth_follow(a->auth, s->auth) == KOVA_OK && auth_required(a->auth));
		uv_idle_init(&places[i].loop, &idles[i]);
		idles[i].data = a;
		uv_idle_start(&idles[i], on_idle);
	}
	start_places(1);
}

static void close_followers(void)
{
	for (unsigned i = 1; i < LOOPS; i++) {
		stops[i].run = run_stop;
		mailbox_post(&places[i].mailbox, &stops[i]);
	}
	end_places(1);
	for (unsigned i = 1; i < LOOPS; i++) {
		control_free(places[i].agent.control);
		auth_free(places[i].agent.auth);
	}
}

static void check_followers(void)
{
	char directory[] = "/tmp/kova-loops-XXXXXX", path[64], command[64];
	json_t *policies = json_pack("[{s:s,s:i,s:s}]", "name", "p", "limit", 1, "per", "1h");
	json_t *none = json_array();
	struct control_error error = {""};
	struct spread s = {.changes = 1, .tokens_path = path};
	struct buf errors = {0};

	CHECK(mkdtemp(directory) != NULL);
	snprintf(path, sizeof path, "%s/tokens", directory);
	write_tokens(&s);
	s.control = control_new(directory, "node-1", (struct control_lacks){0},
				(struct rule_lists){policies, none, NULL}, &error);
	s.auth = auth_new(&(struct auth_terms){.tokens_file = path}, &errors);
	CHECK(s.control != NULL && s.auth != NULL);
	open_places();
	open_followers(&s);
	change_again(&s);
	uv_run(&places[0].loop, UV_RUN_DEFAULT);
	CHECK(uv_loop_close(&places[0].loop) == 0);
	close_followers();
	control_free(s.control);
	auth_free(s.auth);
	json_decref(policies);
	json_decref(none);
	snprintf(command, sizeof command, "rm -r %s", directory);
	CHECK(system(command) == 0);
}

int main(void)
{
	check_mailboxes();
	check_tours();
	check_alone();
	check_followers();
	printf("%d loops: %d messages each, %d tours each, %d changes\n", LOOPS, MESSAGES, TOURS,
	       CHANGES);
	return 0;
}
