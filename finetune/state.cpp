#include "finetune/state.h"

#include <nlohmann/json.hpp>

#include "finetune/error.h"
#include "finetune/file.h"

namespace remat::finetune {

namespace fs = std::filesystem;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(State, step, tokens_seen, seconds, method, seed, data_crc32,
                                   batch_size, accumulation)

namespace {

constexpr const char* kFile = "state.json";

/// Throws if a number differs that the rows of a step, or their dropout, depend on.
void check_same(const nlohmann::json& saved, const nlohmann::json& expected, const fs::path& path) {
  for (const char* key : {"method", "seed", "data_crc32", "batch_size", "accumulation"}) {
    if (saved.at(key) == expected.at(key)) continue;
    throw Error(Fault::model, path.string() + ": the checkpoint was made with " + key + " " +
                                  saved.at(key).dump() + ", now it is " + expected.at(key).dump() +
                                  "; resume with the same, or start anew in another --output-dir");
  }
}

template <typename Use>
auto read(const fs::path& folder, const Use& use) {
  const auto path = folder / kFile;
  if (!fs::exists(path))
    throw Error(Fault::model, folder.string() + " is no checkpoint: it has no " + kFile);
  const auto saved = read_json(path);
  try {
    return use(saved);
  } catch (const nlohmann::json::exception& error) {
    throw Error(Fault::model, path.string() + ": " + error.what());
  }
}

}  // namespace

State initial_state(const Settings& settings, const fs::path& data) {
  State state;
  state.method = settings.method;
  state.seed = settings.seed;
  state.data_crc32 = checksum(data);
  state.batch_size = settings.batch_size;
  state.accumulation = settings.accumulation;
  return state;
}

void save_state(const State& state, const fs::path& folder) {
  write_text(folder / kFile, nlohmann::json(state).dump(2) + "\n");
}

int64_t saved_batch_size(const fs::path& folder) {
  return read(folder,
              [](const nlohmann::json& saved) { return saved.at("batch_size").get<int64_t>(); });
}

State load_state(const fs::path& folder, const State& expected) {
  return read(folder, [&](const nlohmann::json& saved) {
    check_same(saved, expected, folder / kFile);
    return saved.get<State>();
  });
}

}  // namespace remat::finetune
