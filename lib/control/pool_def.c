#include "control/pool_def.h"

#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/pool_script.h"
#include "io/transfers.h"

/* An endpoint while the list is being read. */
struct reading {
	size_t index; /* in the list */
	struct buf identity;
};

struct compiler {
	struct conf_reader *r;
	const struct conf_path *path; /* of the pool */
	const struct conf_path *list; /* of its `endpoints` */
	struct pool_def *def;
	struct reading *reading; /* one a member */
	bool no_memory;
};

static uint32_t hash_32(struct slice s, uint64_t seed)
{
	return (uint32_t)(hash_bytes(s, seed) >> 32);
}

static uint64_t us(int64_t ms)
{
	return (uint64_t)ms * 1000;
}

static double part(int64_t millionths)
{
	return (double)millionths / 1e6;
}

static void copy_name(char ret_name[static NAME_BYTES_MAX + 1], const char *name)
{
	if (name != NULL)
		snprintf(ret_name, NAME_BYTES_MAX + 1, "%s", name);
}

/* ---- One endpoint ---- */

static void wrong_address(const struct compiler *c, const struct conf_path *at, bool is_text,
			  const char *name, const char *why)
{
	conf_fail(c->r, at, is_text ? NULL : name, CONF_AT_VALUE, "`%s`: %s", name, why);
}

/* What tells it from others. */
static void identify(struct compiler *c, struct pool_member *m, struct reading *reading)
{
	if (c->def->rule.kind == POOL_KEY)
		buf_add_text(&reading->identity, m->address);
	else
		pool_url_identity(&m->url, &reading->identity);
	if (buf_failed(&reading->identity)) {
		c->no_memory = true;
		return;
	}
	if (m->id[0] == '\0')
		snprintf(m->id, sizeof m->id, "e-%08x", hash_32(buf_slice(&reading->identity), 1));
	snprintf(m->state_id, sizeof m->state_id, "%s@%08x", m->id,
		 hash_32(buf_slice(&reading->identity), 2));
}

static bool key_fits(const char *key)
{
	for (; *key != '\0'; key++)
		if ((unsigned char)*key <= ' ' || (unsigned char)*key == 0x7f)
			return false;
	return true;
}

static bool address_fits(struct compiler *c, const struct conf_path *at, bool is_text,
			 const struct pool_endpoint_fields *f)
{
	bool is_key = c->def->rule.kind == POOL_KEY;
	const char *address = is_key ? f->key : f->url, *why = NULL;
	const char *name = is_key ? "key" : "url", *other = is_key ? "url" : "key";
	struct pool_url url;

	if (f->key_file != NULL)
		conf_fail(c->r, at, "key_file", CONF_AT_KEY,
			  "`key_file` can only be in a node's file");
	else if ((is_key ? f->url : f->key) != NULL)
		conf_fail(c->r, at, other, CONF_AT_KEY, "a `%s` pool's endpoints have a `%s`",
			  is_key ? "key" : "proxy", name);
	else if (address == NULL)
		conf_fail(c->r, at, NULL, CONF_AT_VALUE, "`%s` is missing", name);
	else if (strlen(address) > POOL_URL_MAX)
		wrong_address(c, at, is_text, name, "it must have at most 2048 bytes");
	else if (is_key && !key_fits(address))
		wrong_address(c, at, is_text, name,
			      "it must be without blanks and control characters");
	else if (!is_key && pool_url_parse(slice_of(address), &url, &why, &(size_t){0}) != KOVA_OK)
		wrong_address(c, at, is_text, name, why);
	else
		return true;
	return false;
}

static void add_member(struct compiler *c, size_t index, const struct pool_endpoint_fields *f)
{
	struct pool_member *m = &c->def->members[c->def->n_members];
	struct reading *reading = &c->reading[c->def->n_members];
	bool is_key = c->def->rule.kind == POOL_KEY;
	const char *why;

	*m = (struct pool_member){.slots = (uint32_t)f->slots,
				  .weight = (uint16_t)f->weight,
				  .tier = (uint8_t)f->tier,
				  .off = f->state == 1};
	m->address = strdup(is_key ? f->key : f->url);
	if (m->address == NULL) {
		c->no_memory = true;
		return;
	}
	c->def->n_members++;
	if (!is_key)
		(void)!pool_url_parse(slice_of(m->address), &m->url, &why, &(size_t){0});
	copy_name(m->id, f->id);
	copy_name(m->group, f->group);
	*reading = (struct reading){.index = index};
	identify(c, m, reading);
}

static void read_endpoint(struct compiler *c, size_t index, const json_t *value)
{
	const struct conf_path at = {.up = c->list, .index = index};
	struct pool_endpoint_fields f;
	json_t *empty = json_object();
	size_t errors = c->r->n_errors;
	bool is_text = json_is_string(value);

	if (!is_text && !json_is_object(value)) {
		conf_fail(c->r, &at, NULL, CONF_AT_VALUE,
			  "an endpoint must be an object or a string");
		json_decref(empty);
		return;
	}
	if (empty == NULL) {
		c->no_memory = true;
		return;
	}
	conf_read(c->r, &at, is_text ? empty : value, &pool_endpoint_table, &f);
	json_decref(empty);
	if (is_text && c->def->rule.kind == POOL_KEY)
		f.key = json_string_value(value);
	else if (is_text)
		f.url = json_string_value(value);
	if (c->r->n_errors == errors && address_fits(c, &at, is_text, &f))
		add_member(c, index, &f);
}

/* ---- Equals ---- */

struct by {
	const struct compiler *c;
	size_t i;
};

static struct slice identity_of(const struct by *b)
{
	return buf_slice(&b->c->reading[b->i].identity);
}

static int compare_addresses(const void *a, const void *b)
{
	const struct by *x = a, *y = b;
	int order = slice_compare(identity_of(x), identity_of(y));

	return order != 0 ? order : (x->i > y->i) - (x->i < y->i);
}

static int compare_ids(const void *a, const void *b)
{
	const struct by *x = a, *y = b;
	int order = strcmp(x->c->def->members[x->i].id, y->c->def->members[y->i].id);

	return order != 0 ? order : (x->i > y->i) - (x->i < y->i);
}

static void release_member(struct pool_member *m)
{
	conf_secret_free(m->address);
	m->address = NULL;
}

/* Of the same address the first is kept. */
static void drop_duplicates(struct compiler *c, struct by *order)
{
	struct pool_def *d = c->def;
	size_t first = 0;

	qsort(order, d->n_members, sizeof *order, compare_addresses);
	for (size_t i = 1; i < d->n_members; i++) {
		if (!slice_equal(identity_of(&order[first]), identity_of(&order[i]))) {
			first = i;
			continue;
		}
		struct pool_duplicate *dup = &d->duplicates[d->n_duplicates++];

		copy_name(dup->kept, d->members[order[first].i].id);
		copy_name(dup->dropped, d->members[order[i].i].id);
		release_member(&d->members[order[i].i]);
	}
}

static void close_ranks(struct compiler *c)
{
	struct pool_def *d = c->def;
	size_t n = 0;

	for (size_t i = 0; i < d->n_members; i++) {
		if (d->members[i].address == NULL) {
			buf_release(&c->reading[i].identity);
			continue;
		}
		d->members[n] = d->members[i];
		c->reading[n++] = c->reading[i];
		if (n - 1 < i)
			c->reading[i] = (struct reading){0};
	}
	d->n_members = n;
}

static void fail_same_ids(struct compiler *c, struct by *order)
{
	struct pool_def *d = c->def;

	for (size_t i = 0; i < d->n_members; i++)
		order[i] = (struct by){c, i};
	qsort(order, d->n_members, sizeof *order, compare_ids);
	for (size_t i = 1; i < d->n_members; i++) {
		const char *id = d->members[order[i].i].id;
		size_t index = c->reading[order[i].i].index;
		const struct conf_path at = {.up = c->list, .index = index};

		if (strcmp(id, d->members[order[i - 1].i].id) == 0)
			conf_fail(c->r, &at, NULL, CONF_AT_VALUE,
				  "the id `%s` is another address's already, of item %zu of the "
				  "list: ids must be unique",
				  id, c->reading[order[i - 1].i].index + 1);
	}
}

static void check_equals(struct compiler *c)
{
	struct by *order = calloc(c->def->n_members + 1, sizeof *order);

	c->def->duplicates = calloc(c->def->n_members + 1, sizeof *c->def->duplicates);
	if (order == NULL || c->def->duplicates == NULL) {
		c->no_memory = true;
		free(order);
		return;
	}
	for (size_t i = 0; i < c->def->n_members; i++)
		order[i] = (struct by){c, i};
	drop_duplicates(c, order);
	close_ranks(c);
	fail_same_ids(c, order);
	free(order);
}

static void read_endpoints(struct compiler *c, const json_t *list)
{
	size_t n = json_array_size(list);

	if (n > POOL_ENDPOINTS_MAX) {
		conf_fail(c->r, c->path, "endpoints", CONF_AT_VALUE,
			  "`endpoints` must be at most %d", POOL_ENDPOINTS_MAX);
		return;
	}
	c->def->members = calloc(n + 1, sizeof *c->def->members);
	c->reading = calloc(n + 1, sizeof *c->reading);
	if (c->def->members == NULL || c->reading == NULL) {
		c->no_memory = true;
		free(c->reading);
		return;
	}
	for (size_t i = 0; i < n && !c->no_memory; i++)
		read_endpoint(c, i, json_array_get(list, i));
	if (!c->no_memory)
		check_equals(c);
	for (size_t i = 0; i < n; i++)
		buf_release(&c->reading[i].identity);
	free(c->reading);
}

/* ---- The pool ---- */

static void set_rule(struct pool_rule *r, const struct pool_fields *f)
{
	const struct pool_cooldown_fields *k = &f->cooldown;

	*r = (struct pool_rule){
		.kind = (enum pool_kind)f->kind,
		.select = (enum pool_select)f->select,
		.window = (uint8_t)f->window,
		.threshold = (uint8_t)f->threshold,
		.escalate_after = (uint8_t)f->escalate.after,
		.escalate_of = (uint8_t)f->escalate.of,
		.direct = k->how == 1,
		.health = f->health != NULL,
		.exclusive = f->sessions.exclusive,
		.base = us(k->base),
		.max = us(k->max),
		.trial = us(k->trial != CONF_ABSENT ? k->trial : f->lease),
		.ramp = us(k->ramp),
		.lease = us(f->lease),
		.floor_active = (uint64_t)f->floor.active,
		.floor_pause = us(f->floor.pause),
		.blame_within = us(f->blame.within),
		.blame_min = (uint64_t)f->blame.min,
		.blame_hold = us(f->blame.hold),
		.escalate_hold = us(f->escalate.hold),
		.session_ttl = us(f->sessions.ttl),
		.report = us(f->report),
		.jitter = part(k->jitter),
		.blame_share = part(f->blame.share),
		.max_out = part(f->blame.max_out),
	};
}

static void check_rule(struct conf_reader *r, const struct conf_path *path,
		       const struct pool_fields *f)
{
	const struct conf_path escalate = {.up = path, .key = "escalate"};

	if (f->threshold > f->window)
		conf_fail(r, path, "threshold", CONF_AT_VALUE,
			  "`threshold` must be 2 to `window`, which is %lld", (long long)f->window);
	if (f->escalate.after > f->escalate.of)
		conf_fail(r, &escalate, "after", CONF_AT_VALUE,
			  "`after` must be 1 to `of`, which is %lld", (long long)f->escalate.of);
	if (f->dialect != POOL_DIALECT_NONE && f->kind != POOL_KEY)
		conf_fail(r, path, "dialect", CONF_AT_KEY, "only a `key` pool has a `dialect`");
	if (f->endpoints_file != NULL)
		conf_fail(r, path, "endpoints_file", CONF_AT_KEY,
			  "`endpoints_file` can only be in a node's file");
}

static void read_health(struct compiler *c, const struct pool_fields *f)
{
	const struct conf_path at = {.up = c->path, .key = "health"};
	struct pool_health_fields h;
	size_t errors = c->r->n_errors;

	if (f->health == NULL)
		return;
	if (!json_is_object(f->health)) {
		conf_fail(c->r, c->path, "health", CONF_AT_VALUE, "`health` must be an object");
		return;
	}
	conf_read(c->r, &at, f->health, &pool_health_table, &h);
	if (c->r->n_errors != errors)
		return;
	if (c->def->rule.kind == POOL_KEY)
		conf_fail(c->r, c->path, "health", CONF_AT_KEY, "only a `proxy` pool has `health`");
	else if (!web_url_is_valid(h.url))
		conf_fail(c->r, &at, "url", CONF_AT_VALUE,
			  "`url` must be an http:// or https:// URL");
	c->def->rule.every = us(h.every);
	c->def->health = (struct pool_health){.url = strdup(h.url),
					      .timeout_us = us(h.timeout),
					      .family = (enum pool_family)h.family,
					      .exit = (enum pool_exit)h.exit};
	c->no_memory |= c->def->health.url == NULL;
}

static void check_floor(struct compiler *c, const struct pool_fields *f)
{
	const struct conf_path at = {.up = c->path, .key = "floor"};
	size_t n = c->def->n_members;

	if (f->floor.active > (int64_t)(n > 0 ? n : 1))
		conf_fail(c->r, &at, "active", CONF_AT_VALUE,
			  "`active` must be 0 to the number of endpoints, which is %zu", n);
}

static void write_script(struct compiler *c)
{
	struct pool_def *d = c->def;
	struct pool_endpoint *e = calloc(d->n_members + 1, sizeof *e);

	if (e == NULL) {
		c->no_memory = true;
		return;
	}
	for (size_t i = 0; i < d->n_members; i++) {
		const struct pool_member *m = &d->members[i];

		e[i] = (struct pool_endpoint){.id = slice_of(m->state_id),
					      .account = slice_of(m->group),
					      .weight = m->weight,
					      .slots = m->slots,
					      .tier = m->tier,
					      .off = m->off};
	}
	pool_definition_write(&d->rule, e, d->n_members, &d->script);
	c->no_memory |= buf_failed(&d->script);
	free(e);
}

static void compile(struct compiler *c, const struct pool_fields *f)
{
	const struct conf_path list = {.up = c->path, .key = "endpoints"};
	size_t errors = c->r->n_errors;

	copy_name(c->def->name, f->name);
	copy_name(c->def->permit, f->permit);
	copy_name(c->def->target_policy, f->target_policy);
	c->def->dialect = (enum pool_dialect)f->dialect;
	c->list = &list;
	set_rule(&c->def->rule, f);
	check_rule(c->r, c->path, f);
	read_health(c, f);
	read_endpoints(c, f->endpoints);
	if (c->r->n_errors == errors)
		check_floor(c, f);
	if (c->r->n_errors == errors && !c->no_memory)
		write_script(c);
}

struct pool_def *pool_def_read(struct conf_reader *r, const struct conf_path *path,
			       const json_t *value)
{
	size_t errors = r->n_errors;
	struct pool_fields f;

	if (!json_is_object(value)) {
		conf_fail(r, path, NULL, CONF_AT_VALUE, "a pool must be an object");
		return NULL;
	}
	conf_read(r, path, value, &pool_table, &f);
	if (r->n_errors != errors)
		return NULL;
	struct compiler c = {.r = r, .path = path, .def = calloc(1, sizeof *c.def)};

	if (c.def == NULL)
		return NULL;
	atomic_init(&c.def->refs, 1);
	compile(&c, &f);
	if (r->n_errors == errors && !c.no_memory)
		return c.def;
	pool_def_unref(c.def);
	return NULL;
}

struct pool_def *pool_def_ref(struct pool_def *def)
{
	atomic_fetch_add_explicit(&def->refs, 1, memory_order_relaxed);
	return def;
}

void pool_def_unref(struct pool_def *def)
{
	if (def == NULL || atomic_fetch_sub_explicit(&def->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < def->n_members; i++)
		release_member(&def->members[i]);
	free(def->members);
	free(def->duplicates);
	free(def->health.url);
	buf_release(&def->script);
	free(def);
}

const struct pool_member *pool_def_member(const struct pool_def *def, struct slice id)
{
	for (size_t i = 0; i < def->n_members; i++)
		if (slice_equal(slice_of(def->members[i].id), id))
			return &def->members[i];
	return NULL;
}
