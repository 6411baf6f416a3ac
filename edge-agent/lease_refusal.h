/* What the region's last refusal of a key is good for. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/script.h"
#include "request.h"

/* All zeros: none. */
struct lease_refusal {
	uint64_t until_us; /* it is believed until then; 0: none is remembered ... */
	uint64_t cost;     /* ... of this cost and more ... */
	enum reason why;   /* ... because it is limited, or held */
	uint64_t room_us;  /* when it will fit, as Redis said; UINT64_MAX: never */
	uint64_t heard_us;
	unsigned in_a_row; /* refusals, one soon after the other */
};

/* The region refused `cost`, and `said` so. */
void lease_refusal_hear(struct lease_refusal *r, uint64_t now_us, uint64_t cost,
			const struct script_answer *said);
/* The region granted something. */
void lease_refusal_forget(struct lease_refusal *r);
bool lease_refusal_is_believed(const struct lease_refusal *r, uint64_t now_us, uint64_t cost);
/* From now until it will fit; -1: never. */
int64_t lease_refusal_wait_us(const struct lease_refusal *r, uint64_t now_us);
