// Finds a registration that covers a range, among registrations that may be nested, overlapping, adjacent or
// equal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nixl_descriptors.h"

namespace nixl {

/// A set of ranges with a value each. Per device a treap ordered by start, length and age, in which every
/// node knows the highest last byte of its subtree: a covering range is found on one path and one descent.
///
/// Value must be cheap to copy (a shared_ptr). Not thread-safe.
template<typename Value> class CoveringIndex {
public:
    /// Names one insertion among equal ranges; grows with every insertion.
    using Age = std::uint64_t;

    Age
    insert(const nixlBasicDesc &range, Value value) {
        const Age age = nextAge_++;
        const Key key{range.addr, lastByte(range), range.len, age};
        const Index fresh = newNode(key, std::move(value));
        Index *at = &roots_.try_emplace(range.devId, kNone).first->second;
        while (*at != kNone && nodes_[*at].priority > nodes_[fresh].priority) {
            Node &node = nodes_[*at];
            node.highest = std::max(node.highest, key.last);
            at = node.key < key ? &node.right : &node.left;
        }
        const auto [before, after] = split(*at, key);
        nodes_[fresh].left = before;
        nodes_[fresh].right = after;
        update(fresh);
        *at = fresh;
        ++size_;
        return age;
    }

    /// Removes the insertion `age` of exactly this range. False if there is none.
    bool
    erase(const nixlBasicDesc &range, Age age) {
        const auto root = roots_.find(range.devId);
        if (root == roots_.end())
            return false;
        const Index found = detach(root->second, {range.addr, lastByte(range), range.len, age});
        if (root->second == kNone)
            roots_.erase(root);
        if (found == kNone)
            return false;
        nodes_[found].value = Value();
        free_.push_back(found);
        --size_;
        return true;
    }

    /// The value of a range that covers `query` (which must not be empty), nullptr if none does. Among
    /// several the one that starts last; of equal starts the longest; of equal ranges the youngest. `visited`
    /// counts the nodes looked at.
    const Value *
    cover(const nixlBasicDesc &query, std::size_t *visited = nullptr) const {
        const auto root = roots_.find(query.devId);
        if (root == roots_.end() || query.len == 0 || query.addr > kMax - (query.len - 1))
            return nullptr;
        const std::uint64_t last = query.addr + (query.len - 1);
        // Going down to the end of the ranges that start at or before the query, the nodes where the path
        // turns right, and their left subtrees, are all those ranges; later turns start later.
        std::size_t count = 0;
        Index best = kNone;
        bool bestIsSubtree = false;
        for (Index at = root->second; at != kNone;) {
            ++count;
            const Node &node = nodes_[at];
            if (node.key.start > query.addr) {
                at = node.left;
                continue;
            }
            if (node.key.last >= last) {
                best = at;
                bestIsSubtree = false;
            } else if (node.left != kNone && nodes_[node.left].highest >= last) {
                best = node.left;
                bestIsSubtree = true;
            }
            at = node.right;
        }
        while (bestIsSubtree) { // the rightmost node of the subtree that reaches far enough
            ++count;
            const Node &node = nodes_[best];
            if (node.right != kNone && nodes_[node.right].highest >= last)
                best = node.right;
            else if (node.key.last >= last)
                bestIsSubtree = false;
            else
                best = node.left;
        }
        if (visited)
            *visited += count;
        return best == kNone ? nullptr : &nodes_[best].value;
    }

    /// How many insertions there are of exactly this range.
    std::size_t
    count(const nixlBasicDesc &range) const {
        const auto root = roots_.find(range.devId);
        return root == roots_.end() ? 0 : countBelow(root->second, range);
    }

    /// The oldest insertion of exactly this range; nullptr if there is none.
    const Value *
    oldest(const nixlBasicDesc &range) const {
        const Key wanted{range.addr, lastByte(range), range.len, 0};
        return pick(range, [&](const Key &key) { return !(key < wanted); }, true);
    }

    /// The youngest insertion of exactly this range; nullptr if there is none.
    const Value *
    youngest(const nixlBasicDesc &range) const {
        const Key wanted{range.addr, lastByte(range), range.len, kMax};
        return pick(range, [&](const Key &key) { return wanted < key; }, false);
    }

    /// Makes room for `more` insertions.
    void
    reserve(std::size_t more) {
        const std::size_t wanted = size_ + more;
        if (wanted > nodes_.capacity())
            nodes_.reserve(std::max(wanted, 2 * nodes_.capacity()));
    }

    /// Every value: per device in the order of addresses, equal ranges oldest first.
    template<typename Visitor>
    void
    forEach(Visitor visitor) const {
        std::vector<std::uint64_t> devices;
        devices.reserve(roots_.size());
        for (const auto &[device, root] : roots_)
            devices.push_back(device);
        std::sort(devices.begin(), devices.end());
        for (const std::uint64_t device : devices)
            visit(roots_.at(device), visitor);
    }

    std::size_t
    size() const {
        return size_;
    }

private:
    using Index = std::uint32_t;
    static constexpr Index kNone = std::numeric_limits<Index>::max();
    static constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

    struct Key {
        std::uint64_t start, last, length;
        Age age;

        bool
        operator<(const Key &other) const {
            if (start != other.start)
                return start < other.start;
            return length != other.length ? length < other.length : age < other.age;
        }
    };

    struct Node {
        Key key;
        std::uint64_t highest; // largest key.last of the subtree
        std::uint64_t priority;
        Index left, right;
        Value value;
    };

    /// Unbounded ranges (length SIZE_MAX) reach to the end of the address space.
    static std::uint64_t
    lastByte(const nixlBasicDesc &range) {
        const std::uint64_t extra = range.len == 0 ? 0 : range.len - 1;
        return range.addr > kMax - extra ? kMax : range.addr + extra;
    }

    Index
    newNode(const Key &key, Value value) {
        // Priorities need to be spread, not secret: a bijective mix of a counter never repeats.
        std::uint64_t mixed = ++priorities_ * 0x9E3779B97F4A7C15u;
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
        mixed ^= mixed >> 31;
        Node node{key, key.last, mixed, kNone, kNone, std::move(value)};
        if (free_.empty()) {
            nodes_.push_back(std::move(node));
            return static_cast<Index>(nodes_.size() - 1);
        }
        const Index at = free_.back();
        free_.pop_back();
        nodes_[at] = std::move(node);
        return at;
    }

    void
    update(Index at) {
        Node &node = nodes_[at];
        node.highest = node.key.last;
        if (node.left != kNone)
            node.highest = std::max(node.highest, nodes_[node.left].highest);
        if (node.right != kNone)
            node.highest = std::max(node.highest, nodes_[node.right].highest);
    }

    /// Nodes below `key`, and the others.
    std::pair<Index, Index>
    split(Index at, const Key &key) {
        if (at == kNone)
            return {kNone, kNone};
        if (nodes_[at].key < key) {
            const auto [low, high] = split(nodes_[at].right, key);
            nodes_[at].right = low;
            update(at);
            return {at, high};
        }
        const auto [low, high] = split(nodes_[at].left, key);
        nodes_[at].left = high;
        update(at);
        return {low, at};
    }

    Index
    merge(Index low, Index high) {
        if (low == kNone || high == kNone)
            return low == kNone ? high : low;
        if (nodes_[low].priority > nodes_[high].priority) {
            nodes_[low].right = merge(nodes_[low].right, high);
            update(low);
            return low;
        }
        nodes_[high].left = merge(low, nodes_[high].left);
        update(high);
        return high;
    }

    /// Takes the node of `key` out of the tree below `link`; kNone if it is not there.
    Index
    detach(Index &link, const Key &key) {
        const Index at = link;
        if (at == kNone)
            return kNone;
        Node &node = nodes_[at];
        if (!(node.key < key) && !(key < node.key)) {
            link = merge(node.left, node.right);
            return at;
        }
        const Index found = detach(node.key < key ? node.right : node.left, key);
        update(at);
        return found;
    }

    /// `isAfter` parts the keys into those before a position and those behind it: the neighbour of the
    /// position on the side asked for, if it is an insertion of `range`.
    template<typename Predicate>
    const Value *
    pick(const nixlBasicDesc &range, Predicate isAfter, bool behind) const {
        const auto root = roots_.find(range.devId);
        Index best = kNone;
        for (Index at = root == roots_.end() ? kNone : root->second; at != kNone;) {
            const Node &node = nodes_[at];
            const bool after = isAfter(node.key);
            if (after == behind)
                best = at;
            at = after ? node.left : node.right;
        }
        if (best == kNone || nodes_[best].key.start != range.addr || nodes_[best].key.length != range.len)
            return nullptr;
        return &nodes_[best].value;
    }

    std::size_t
    countBelow(Index at, const nixlBasicDesc &range) const {
        if (at == kNone)
            return 0;
        const Node &node = nodes_[at];
        const std::pair<std::uint64_t, std::uint64_t> here(node.key.start, node.key.length),
            wanted(range.addr, range.len);
        return (wanted <= here ? countBelow(node.left, range) : 0) + (wanted == here ? 1 : 0) +
               (here <= wanted ? countBelow(node.right, range) : 0);
    }

    template<typename Visitor>
    void
    visit(Index at, Visitor &visitor) const {
        if (at == kNone)
            return;
        visit(nodes_[at].left, visitor);
        visitor(nodes_[at].value);
        visit(nodes_[at].right, visitor);
    }

    std::unordered_map<std::uint64_t, Index> roots_; // per device
    std::vector<Node> nodes_;
    std::vector<Index> free_;
    std::uint64_t priorities_ = 0;
    Age nextAge_ = 0;
    std::size_t size_ = 0;
};

} // namespace nixl
