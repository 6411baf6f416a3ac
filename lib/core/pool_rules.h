/*
 * The rules of a pool by name, where the code obeys them. The test that compares the code with the script compiles it once more with
 * a POOL_RULE of its own, to see that it finds out when one is broken; everywhere else a rule always holds.
 */
#pragma once

#ifndef POOL_RULE
#define POOL_RULE(name) true
#endif
