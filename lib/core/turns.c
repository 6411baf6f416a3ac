#include "core/turns.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

/* ---- Lists ---- */

static void drop_ticket(struct turns *t, unsigned i)
{
	t->ticket[i] = t->ticket[--t->n_tickets];
	t->changed = true;
}

static void drop_queue(struct turns *t, unsigned i)
{
	t->queue[i] = t->queue[--t->n_queues];
	t->changed = true;
}

void turns_begin(struct turns *t, uint64_t now_us)
{
	unsigned n = 0;

	for (unsigned i = 0; i < t->n_tickets; i++)
		if (now_us < t->ticket[i].due_us + TURN_GRACE_US &&
		    t->ticket[i].due_us <= now_us + TURN_DUE_MAX_US)
			t->ticket[n++] = t->ticket[i];
	t->n_tickets = n;
	n = 0;
	for (unsigned i = 0; i < t->n_queues; i++)
		if (now_us < t->queue[i].stop_us &&
		    t->queue[i].stop_us <= now_us + TURN_QUEUE_KEPT_US)
			t->queue[n++] = t->queue[i];
	t->n_queues = n;
	t->changed = false;
}

void turns_end(struct turns *t)
{
	if (t->n_tickets + t->n_queues == 0)
		*t = (struct turns){.changed = t->changed};
	else
		t->is_kept = true;
}

/* The number of the loop's ticket; n_tickets: it has none. */
static unsigned ticket_of(const struct turns *t, const struct turn_claim *claim)
{
	unsigned i = 0;

	while (i < t->n_tickets && t->ticket[i].loop != claim->loop)
		i++;
	return i;
}

static bool is_of(const struct turn_ticket *ticket, const struct turn_claim *claim)
{
	return ticket->flow == claim->flow && ticket->arrival_us == claim->arrival_us;
}

/* ---- Order ---- */

static int by_arrival(const struct turn_ticket *a, const struct turn_ticket *b)
{
	if (a->arrival_us != b->arrival_us)
		return a->arrival_us < b->arrival_us ? -1 : 1;
	return a->loop < b->loop ? -1 : a->loop > b->loop;
}

static int compare_arrival(const void *a, const void *b)
{
	return by_arrival(a, b);
}

static int compare_finish(const void *a, const void *b)
{
	const struct turn_ticket *left = a, *right = b;

	if (left->finish != right->finish)
		return left->finish < right->finish ? -1 : 1;
	return by_arrival(left, right);
}

/* As they are served: those of a flow as they came, each behind the one before. */
static void put_in_order(struct turn_ticket *ticket, unsigned n)
{
	qsort(ticket, n, sizeof *ticket, compare_arrival);
	for (unsigned i = 0; i < n; i++) {
		unsigned j = i;

		while (j > 0 && ticket[j - 1].flow != ticket[i].flow)
			j--;
		ticket[i].finish =
			(j > 0 ? ticket[j - 1].finish : ticket[i].start) + ticket[i].size;
	}
	qsort(ticket, n, sizeof *ticket, compare_finish);
}

/*
 * The virtual start of a flow: as its tickets have it, else as its loop remembers it: of one that waits all the time it is never
 * later than now, nor longer ago than its head is large.
 */
static double start_of(struct turns *t, const struct turn_claim *claim)
{
	unsigned mine = ticket_of(t, claim);
	double start = (double)claim->start, oldest = t->now - (double)claim->size;

	if (mine < t->n_tickets && is_of(&t->ticket[mine], claim))
		return t->ticket[mine].start;
	for (unsigned i = 0; i < t->n_tickets; i++)
		if (i != mine && t->ticket[i].flow == claim->flow)
			return t->ticket[i].start;
	if (!t->is_kept && !claim->is_new && start > t->now)
		t->now = start;
	if (claim->is_new || start > t->now)
		return t->now;
	return start > oldest ? start : oldest;
}

/* Who is before the caller. */
struct view {
	struct turn_ticket mine;           /* what his ticket is, or would be */
	uint64_t before[TURN_TICKETS_MAX]; /* loops */
	unsigned n_before;
	double most_passed; /* of these */
	double ahead;       /* tokens that are asked for before him */
	bool all_late;      /* those who do have not come when they should */
};

static double cost_of_all(const struct turns *t)
{
	double cost = 0;

	for (unsigned i = 0; i < t->n_tickets; i++)
		cost += t->ticket[i].cost;
	return cost;
}

static double passed_of(const struct turns *t, uint64_t loop)
{
	for (unsigned i = 0; i < t->n_passed; i++)
		if (t->passed[i].loop == loop)
			return t->passed[i].by;
	return 0;
}

static struct view view_of(struct turns *t, uint64_t now_us, const struct turn_claim *claim,
			   uint64_t cost)
{
	struct turn_ticket all[TURN_TICKETS_MAX + 1];
	unsigned n = 0, mine = claim != NULL ? ticket_of(t, claim) : t->n_tickets;
	struct view v = {.all_late = true};

	if (claim != NULL)
		v.mine = (struct turn_ticket){.loop = claim->loop,
					      .flow = claim->flow,
					      .arrival_us = claim->arrival_us,
					      .start = start_of(t, claim),
					      .size = (double)claim->size,
					      .cost = (double)cost};
	v.mine.finish = v.mine.start + v.mine.size;
	if (claim == NULL || claim->behind) {
		v.ahead = cost_of_all(t);
		v.all_late = false;
		return v;
	}
	for (unsigned i = 0; i < t->n_tickets; i++)
		if (i != mine)
			all[n++] = t->ticket[i];
	all[n++] = v.mine;
	put_in_order(all, n);
	for (unsigned i = 0; all[i].loop != claim->loop; i++) {
		v.ahead += all[i].cost;
		v.before[v.n_before++] = all[i].loop;
		if (passed_of(t, all[i].loop) > v.most_passed)
			v.most_passed = passed_of(t, all[i].loop);
		v.all_late = v.all_late && now_us > all[i].due_us + TURN_LATE_US;
		v.mine.finish = all[i + 1].finish;
	}
	return v;
}

/* ---- Decisions ---- */

/* µs until it can be his turn. */
static int64_t turn_wait_us(const struct view *v, const struct turn_claim *claim, uint64_t debt_ut,
			    const struct limit *l, uint64_t now_us, uint64_t cost,
			    bool *ret_overtakes)
{
	bool behind = claim != NULL && claim->behind;
	double need_ut = (v->ahead + (double)cost) * LIMIT_UT;
	double lack_ut = (double)debt_ut + need_ut - (double)l->cap_ut;
	uint64_t us;

	if (v->ahead == 0 && !behind)
		return 0;
	us = lack_ut > 0 ? bucket_time_us(l, now_us, (uint64_t)lack_ut) : 0;
	if (us == 0 && claim != NULL && !behind &&
	    v->most_passed + (double)cost <=
		    (double)l->quantum_ut / (double)l->quantum_us / 100) { /* in 10 ms */
		*ret_overtakes = true;
		return 0;
	}
	if (v->all_late && debt_ut == 0)
		return 0;
	return us > TURN_SOON_US ? (int64_t)us : TURN_SOON_US;
}

static unsigned queue_of(const struct turns *t, const struct turn_claim *claim)
{
	unsigned i = 0;

	while (i < t->n_queues &&
	       (t->queue[i].loop != claim->loop || t->queue[i].flow != claim->flow))
		i++;
	return i;
}

static void count(struct turns *t, uint64_t now_us, const struct turn_claim *claim, uint32_t n)
{
	unsigned i = queue_of(t, claim);
	uint64_t stop_us = now_us + TURN_QUEUE_KEPT_US;
	struct turn_queue *q = &t->queue[i];

	if (claim->most == 0 || (i == t->n_queues && (n == 0 || i == TURN_QUEUES_MAX)))
		return;
	if (n == 0) {
		drop_queue(t, i);
		return;
	}
	if (i == t->n_queues)
		t->queue[t->n_queues++] = (struct turn_queue){claim->loop, claim->flow, 0, 0};
	t->changed = t->changed || q->n != n || stop_us > q->stop_us;
	q->n = n;
	q->stop_us = stop_us;
}

static bool is_full(const struct turns *t, const struct turn_claim *claim)
{
	uint64_t n = claim->n;

	if (!claim->joins || claim->most == 0)
		return false;
	for (unsigned i = 0; i < t->n_queues; i++)
		if (t->queue[i].flow == claim->flow && t->queue[i].loop != claim->loop)
			n += t->queue[i].n;
	return n > claim->most;
}

/* Virtual times stay whole doubles. */
static void rebase(struct turns *t)
{
	if (t->now <= (double)TURN_TIME_MAX)
		return;
	for (unsigned i = 0; i < t->n_tickets; i++)
		t->ticket[i].start -= t->now;
	t->now = 0;
}

/* The loop was passed by so much more, or was granted it itself. */
static void pass(struct turns *t, uint64_t loop, double cost)
{
	double by = passed_of(t, loop) + cost;
	unsigned i = 0;

	while (i < t->n_passed && t->passed[i].loop != loop)
		i++;
	if (by > 0 && i < TURN_TICKETS_MAX) {
		t->passed[i] = (struct turn_passed){loop, by};
		t->n_passed += i == t->n_passed;
	} else if (by <= 0 && i < t->n_passed) {
		t->passed[i] = t->passed[--t->n_passed];
	}
}

static void served(struct turns *t, uint64_t now_us, const struct turn_claim *claim,
		   const struct turn_ticket *mine)
{
	unsigned i = ticket_of(t, claim);

	pass(t, claim->loop, -mine->cost);
	if (i < t->n_tickets)
		drop_ticket(t, i);
	for (i = 0; i < t->n_tickets; i++)
		if (t->ticket[i].flow == claim->flow)
			t->ticket[i].start += (double)claim->size;
	if (mine->finish > t->now) {
		t->now = mine->finish;
		rebase(t);
	}
	count(t, now_us, claim, claim->n - 1);
}

static void withdraw(struct turns *t, const struct turn_claim *claim)
{
	unsigned i = ticket_of(t, claim);

	if (i < t->n_tickets && is_of(&t->ticket[i], claim))
		drop_ticket(t, i);
}

/* He asks again after `wait_us`; unless he will have given up by then. */
static void stand(struct turns *t, uint64_t now_us, const struct turn_claim *claim,
		  struct turn_ticket *mine, int64_t wait_us, bool behind_others)
{
	unsigned i = ticket_of(t, claim);
	uint64_t us = (uint64_t)wait_us < claim->retry_us ? (uint64_t)wait_us : claim->retry_us;

	if (wait_us < 0 || (!behind_others && (uint64_t)wait_us > claim->left_us)) {
		withdraw(t, claim);
		return;
	}
	if ((i < t->n_tickets && claim->behind) || i == TURN_TICKETS_MAX)
		return;
	mine->due_us = now_us + us;
	t->ticket[i] = *mine;
	t->n_tickets += i == t->n_tickets;
	t->changed = true;
}

enum turn_outcome turns_take(struct turns *t, struct bucket *b, const struct limit *l,
			     uint64_t now_us, const struct turn_claim *claim, uint64_t cost,
			     struct limiter_verdict *ret_verdict, struct turn_place *ret_place)
{
	struct view v = view_of(t, now_us, claim, cost);
	struct bucket after = *b;
	uint64_t debt_ut = bucket_debt_ut(b, l, now_us);
	int64_t turn_us = 0;
	bool overtakes = false;

	assert(claim == NULL || (claim->size >= 1 && claim->size <= TURN_SIZE_MAX));
	bucket_take(&after, l, now_us, cost, ret_verdict);
	if (ret_verdict->allowed || ret_verdict->wait_us != VERDICT_NEVER)
		turn_us = turn_wait_us(&v, claim, debt_ut, l, now_us, cost, &overtakes);
	if (ret_verdict->allowed && turn_us == 0) {
		*b = after;
		t->changed = true;
		for (unsigned i = 0; overtakes && i < v.n_before; i++)
			pass(t, v.before[i], (double)cost);
		if (claim != NULL)
			served(t, now_us, claim, &v.mine);
		return TURN_TAKEN;
	}
	if (ret_verdict->allowed || (ret_verdict->wait_us >= 0 && turn_us > ret_verdict->wait_us))
		ret_verdict->wait_us = turn_us;
	ret_verdict->allowed = false;
	if (claim == NULL)
		return TURN_REFUSED;
	if (is_full(t, claim))
		return TURN_QUEUE_FULL;
	*ret_place = (struct turn_place){
		.known = true,
		.behind_others = turn_us > 0,
		.start = v.mine.finish > v.mine.size ? (uint64_t)(v.mine.finish - v.mine.size) : 0,
		.now = (uint64_t)t->now};
	stand(t, now_us, claim, &v.mine, ret_verdict->wait_us, turn_us > 0);
	count(t, now_us, claim, claim->n);
	return TURN_REFUSED;
}

void turns_leave(struct turns *t, uint64_t now_us, const struct turn_claim *claim)
{
	withdraw(t, claim);
	count(t, now_us, claim, claim->n);
}
