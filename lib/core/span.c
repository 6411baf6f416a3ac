#include "core/span.h"

const struct span_attribute *span_attribute(const struct span *s, const char *name)
{
	for (uint8_t i = 0; i < s->n_attributes; i++)
		if (strcmp(s->attributes[i].name, name) == 0)
			return &s->attributes[i];
	return NULL;
}

/* NULL: there is no room for another. */
static struct span_attribute *place(struct span *s, const char *name)
{
	uint8_t i = 0;

	while (i < s->n_attributes && strcmp(s->attributes[i].name, name) != 0)
		i++;
	if (i == SPAN_ATTRIBUTES_MAX)
		return NULL;
	if (i == s->n_attributes)
		s->n_attributes++;
	s->attributes[i] = (struct span_attribute){.name = name};
	return &s->attributes[i];
}

/* Names are of ASCII; of what is not, the length of a character can't be trusted. */
static char printable(char c)
{
	return c >= ' ' && c <= '~' ? c : '?';
}

void span_set_text(struct span *s, const char *name, struct slice value)
{
	size_t room = sizeof s->text - s->text_len, len = value.len < room ? value.len : room;
	struct span_attribute *a = place(s, name);

	if (a == NULL)
		return;
	a->type = SPAN_TEXT;
	a->at = s->text_len;
	a->len = (uint16_t)len;
	for (size_t i = 0; i < len; i++)
		s->text[a->at + i] = printable(value.ptr[i]);
	s->text_len = (uint16_t)(s->text_len + len);
}

static void set_number(struct span *s, const char *name, enum span_type type, int64_t value)
{
	struct span_attribute *a = place(s, name);

	if (a == NULL)
		return;
	a->type = (uint8_t)type;
	a->number = value;
}

void span_set_int(struct span *s, const char *name, int64_t value)
{
	set_number(s, name, SPAN_INT, value);
}

void span_set_bool(struct span *s, const char *name, bool value)
{
	set_number(s, name, SPAN_BOOL, value);
}
