#include "history_record.h"

#include <jansson.h>
#include <kova_children.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "core/hlc.h"
#include "io/buf_json.h"

static struct slice slice_of_bytes(ProtobufCBinaryData b)
{
	return (struct slice){(const char *)b.data, b.len};
}

static ProtobufCBinaryData bytes_of(const char *ptr, size_t len)
{
	return (ProtobufCBinaryData){len, (uint8_t *)(uintptr_t)ptr};
}

/* ---- From agents ---- */

kova_status child_message_parse(struct slice value, struct child_message *ret_m)
{
	Kova__V1__ChildUsage *u =
		kova__v1__child_usage__unpack(NULL, value.len, (const uint8_t *)value.ptr);

	if (u == NULL)
		return KOVA_EPROTO;
	*ret_m = (struct child_message){.usage = {slice_of(u->policy), slice_of_bytes(u->parent),
						  slice_of_bytes(u->child), u->admitted,
						  hlc_ms(u->hlc)},
					.owner = u};
	if (name_is_valid(ret_m->usage.policy) && ret_m->usage.parent.len <= REQUEST_KEY_MAX &&
	    ret_m->usage.child.len <= REQUEST_KEY_MAX)
		return KOVA_OK;
	child_message_release(ret_m);
	return KOVA_EPROTO;
}

void child_message_release(struct child_message *m)
{
	kova__v1__child_usage__free_unpacked(m->owner, NULL);
	m->owner = NULL;
}

/* ---- What is kept ---- */

kova_status history_record_write(const struct history_parent *p, struct buf *key, struct buf *value)
{
	Kova__V1__ChildHistory parts[HISTORY_CHILDREN_MAX], *children[HISTORY_CHILDREN_MAX];
	Kova__V1__History m = KOVA__V1__HISTORY__INIT;
	char *to;

	for (unsigned i = 0; i < p->n; i++) {
		const struct history_child *c = p->child[i];

		kova__v1__child_history__init(&parts[i]);
		parts[i].child = bytes_of(c->name, c->len);
		parts[i].amount = c->history.amount;
		parts[i].at = c->history.at_ms;
		parts[i].weight = c->weight;
		children[i] = &parts[i];
	}
	m.policy = (char *)(uintptr_t)p->policy;
	m.parent = bytes_of(p->path, p->len);
	m.children = children;
	m.n_children = p->n;
	buf_add_text(key, p->policy);
	buf_add_text(key, "/");
	buf_add(key, p->path, p->len);
	to = buf_reserve(value, kova__v1__history__get_packed_size(&m));
	if (to != NULL)
		value->len += kova__v1__history__pack(&m, (uint8_t *)to);
	return to != NULL && !buf_failed(key) ? KOVA_OK : KOVA_ENOMEM;
}

static kova_status restore(const Kova__V1__History *m, struct histories *h)
{
	struct slice policy = slice_of(m->policy), path = slice_of_bytes(m->parent);
	struct history_parent *p;
	kova_status status;

	if (!name_is_valid(policy) || path.len > REQUEST_KEY_MAX)
		return KOVA_EPROTO;
	status = histories_begin(h, policy, path, &p);
	for (size_t i = 0; status == KOVA_OK && i < m->n_children; i++) {
		const Kova__V1__ChildHistory *c = m->children[i];

		status = histories_add(p, slice_of_bytes(c->child),
				       (struct history){c->amount, c->at}, c->weight);
	}
	return status == KOVA_ETOOBIG ? KOVA_OK : status;
}

kova_status history_record_read(struct slice value, struct histories *h)
{
	Kova__V1__History *m =
		kova__v1__history__unpack(NULL, value.len, (const uint8_t *)value.ptr);
	kova_status status = m != NULL ? restore(m, h) : KOVA_EPROTO;

	if (m != NULL)
		kova__v1__history__free_unpacked(m, NULL);
	return status;
}

/* ---- As a configuration item ---- */

/* False: memory is out. */
static bool add_weight(json_t *weights, const struct history_child *c)
{
	char name[REQUEST_KEY_MAX + 1];
	json_t *text = json_stringn(c->name, c->len);

	if (text == NULL || memchr(c->name, '\0', c->len) != NULL) {
		json_decref(text);
		return true;
	}
	json_decref(text);
	memcpy(name, c->name, c->len);
	name[c->len] = '\0';
	return json_object_set_new(weights, name, json_integer(c->weight)) == 0;
}

bool history_weights_write(const struct history_parent *p, struct buf *out)
{
	json_t *path = json_stringn(p->path, p->len), *weights = json_object();
	json_t *item = path != NULL && weights != NULL ? json_object() : NULL;
	bool ok = item != NULL;

	for (unsigned i = 0; ok && i < p->n; i++)
		if (p->child[i]->weight > 0)
			ok = add_weight(weights, p->child[i]);
	ok = ok && json_object_set_new(item, "policy", json_string(p->policy)) == 0 &&
	     json_object_set(item, "parent", path) == 0 &&
	     json_object_set(item, "weights", weights) == 0;
	if (ok)
		buf_add_json(out, item, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(item);
	json_decref(path);
	json_decref(weights);
	return ok && !buf_failed(out);
}
