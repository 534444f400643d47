#pragma once

namespace ferry::process {

// How long each storm lasts: --storm-seconds.
double& storm_seconds();

}  // namespace ferry::process
