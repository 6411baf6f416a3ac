/*
 * Where in a JSON text something stands: the JSON library keeps no positions, so errors about a value are
 * placed by walking the text again. Works on text that the parser has already accepted, except for
 * locate_json_token().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/bytes.h"

/* 1-based; columns count characters (UTF-8), as editors do. */
struct locate_position {
	size_t line, column;
};

/* One step into a document: a member by its name (key.ptr != NULL) or an item by its index. */
struct locate_step {
	struct slice key;
	size_t index;
};

/*
 * The position of the value at `steps` of `text`, or (`at_key`) of the name of that member. When a
 * step leads nowhere, the position of the value it should have been in. Among members of the same name, the last
 * is taken, as the parser does.
 */
struct locate_position locate_json(struct slice text, const struct locate_step *steps,
				   size_t n_steps, bool at_key);

/*
 * The position of the token that holds the byte before `offset` (as a parser that stopped after it reports),
 * of the end if offset is past it. `text` need not be well-formed.
 */
struct locate_position locate_json_token(struct slice text, size_t offset);
