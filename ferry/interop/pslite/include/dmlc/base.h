#pragma once

// What programs written for ps-lite expect of dmlc-core besides logging: nothing of its contents.
#include <cstddef>
#include <cstdint>
