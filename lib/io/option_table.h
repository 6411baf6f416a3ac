/* What the tables of options (io/conf.h) are written with. */
#pragma once

#include "io/conf.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Reserved: refused as not available yet. */
#define LATER(name_)                                          \
	{                                                     \
		.name = name_, .type = CONF_LATER, .text = "" \
	}
