#pragma once

#include "remat/plan/search.h"

/// The planner's passes. Each looks for plans of the search's problem in its own way and offers
/// what it finds; the simulator judges.
namespace remat::plan {

/// Plain training: everything is kept.
void plain_pass(Search& search);

/// Priced minimum cuts: one price a byte, raised until the peak fits, then halved towards the
/// budget; once for each of several families of boundaries that are kept for free.
void cut_pass(Search& search);

/// Minimum cuts with one price for each instant of the step: a value pays for the instants at which
/// keeping it is what holds it. Prices rise where the simulated step exceeds the budget and fall
/// elsewhere (multiplicative weights).
void time_price_pass(Search& search);

/// Steepest descent from keep-all. Wins where the peak lies inside the layers.
void greedy_pass(Search& search);

/// Local search around the cheapest plan: see exchange.
void exchange_pass(Search& search);

/// Backward in phases: at the narrow place, where forced values leave no room, little more than
/// boundaries of layers is carried over; behind it the layers between two boundaries at a time run
/// again, and each such run with its part of backward is planned as a step of its own with all of
/// the budget. Wins where what backward makes again does not fit at once.
void phase_pass(Search& search);

/// Eviction on demand, in the manner of DTR (Kirisame et al. 2021, "Dynamic tensor
/// rematerialization"), but with the order of backward known: what is needed next time latest and
/// is cheap for its bytes goes first. Finds plans where all else fails.
void evict_pass(Search& search);

}  // namespace remat::plan
