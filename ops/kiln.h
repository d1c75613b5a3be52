// Everything a user of Kiln includes.
#pragma once
