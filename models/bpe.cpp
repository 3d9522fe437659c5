#include "models/bpe.h"

#include <queue>
#include <stdexcept>
#include <tuple>

#include <fmt/format.h>

#include "models/utf8.h"

namespace remat::models {

namespace {

uint64_t pair_key(Bpe::Id left, Bpe::Id right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

std::string byte_name(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

std::optional<Bpe::Id> Bpe::find(const std::string& text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

void Bpe::add_merge(const std::string& left, const std::string& right) {
  const auto rank = static_cast<int32_t>(merges_.size());
  const auto key = pair_key(ids_.at(left), ids_.at(right));
  merges_.emplace(key, Merge{rank, ids_.at(left + right)});
}

void Bpe::finish() {
  for (unsigned byte = 0; byte < byte_ids_.size(); ++byte) {
    const auto value = static_cast<unsigned char>(byte);
    byte_ids_.at(byte) =
        find(options_.symbols == Symbols::bytes ? std::string(1, static_cast<char>(value))
                                                : byte_name(value));
  }
}

void Bpe::encode(std::string_view piece, std::vector<int64_t>& tokens) const {
  if (options_.ignore_merges) {
    if (const auto whole = find(std::string(piece))) {
      tokens.push_back(*whole);
      return;
    }
  }
  auto symbols = smallest_symbols(piece);
  join(symbols);
  tokens.insert(tokens.end(), symbols.begin(), symbols.end());
}

// ---- Symbols
// -------------------------------------------------------------------------------------

std::vector<Bpe::Id> Bpe::smallest_symbols(std::string_view piece) const {
  std::vector<Id> symbols;
  symbols.reserve(piece.size());
  if (options_.symbols == Symbols::bytes) {
    for (const char byte : piece) {
      const auto id = byte_ids_.at(static_cast<unsigned char>(byte));
      if (id) symbols.push_back(*id);
    }
    return symbols;
  }
  for (size_t at = 0, length = 0; at < piece.size(); at += length) {
    length = utf8::length_at(piece, at);
    const auto character = piece.substr(at, length);
    if (const auto id = find(std::string(character))) {
      symbols.push_back(*id);
    } else {
      add_unknown(character, symbols);
    }
  }
  return symbols;
}

void Bpe::add_unknown(std::string_view character, std::vector<Id>& symbols) const {
  if (options_.byte_fallback) {
    std::vector<Id> bytes;
    for (const char byte : character) {
      const auto id = byte_ids_.at(static_cast<unsigned char>(byte));
      if (id) bytes.push_back(*id);
    }
    if (bytes.size() == character.size()) {
      symbols.insert(symbols.end(), bytes.begin(), bytes.end());
      return;
    }
  }
  const bool fused =
      options_.fuse_unknown && !symbols.empty() && symbols.back() == options_.unknown;
  if (options_.unknown && !fused) symbols.push_back(*options_.unknown);
}

// ---- Merges
// --------------------------------------------------------------------------------------

const Bpe::Merge* Bpe::merge_of(Id left, Id right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

namespace {

/// A neighbour pair that may be joined, if its symbols are still what they were.
struct Candidate {
  int32_t rank;
  size_t place;  // of the left symbol
  size_t right;
  Bpe::Id merged;
  Bpe::Id left_id;
  Bpe::Id right_id;
};

struct LaterFirst {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return std::tie(a.rank, a.place) > std::tie(b.rank, b.place);
  }
};

}  // namespace

void Bpe::join(std::vector<Id>& symbols) const {
  // A linked list over places: a symbol joined into its left neighbour is marked gone. A queue, not
  // a scan for every merge: without pre-tokenizer a piece is a whole text.
  constexpr Id kGone = -1;
  const size_t count = symbols.size();
  std::vector<size_t> next(count);
  std::vector<size_t> previous(count);
  for (size_t place = 0; place < count; ++place) {
    next[place] = place + 1;
    previous[place] = place - 1;  // of the first: beyond count
  }
  std::priority_queue<Candidate, std::vector<Candidate>, LaterFirst> queue;
  const auto consider = [&](size_t left, size_t right) {
    if (left >= count || right >= count) return;
    if (const auto* merge = merge_of(symbols[left], symbols[right])) {
      queue.push({merge->rank, left, right, merge->merged, symbols[left], symbols[right]});
    }
  };
  for (size_t place = 0; place + 1 < count; ++place) consider(place, place + 1);

  while (!queue.empty()) {
    const auto best = queue.top();
    queue.pop();
    const bool stale = symbols[best.place] != best.left_id || next[best.place] != best.right ||
                       symbols[best.right] != best.right_id;
    if (stale) continue;
    symbols[best.place] = best.merged;
    symbols[best.right] = kGone;
    next[best.place] = next[best.right];
    if (next[best.place] < count) previous[next[best.place]] = best.place;
    consider(previous[best.place], best.place);
    consider(best.place, next[best.place]);
  }
  std::erase(symbols, kGone);
}

}  // namespace remat::models
