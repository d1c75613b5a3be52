// Everything a user of Kiln includes.
#pragma once

#include <kiln/dsl/language.h>
