"""Heuristic Domain Adaptation in a training loop of one's own: a head, an adversary and two losses.

The pictures are made up here: two classes of stripes, and a target domain in which colours are inverted and grainy.
"""

import torch
from torch import Tensor, nn

from hda.alignments import EntropyConditionedAdversary
from hda.losses import cross_entropy, similarity, termination
from hda.nn import HeuristicHead

ROWS, CLASSES, STEPS = 32, 2, 60


def stripes(rows: int, target: bool) -> tuple[Tensor, Tensor]:
    """Pictures of stripes, (rows, 3, 16, 16), across or down, and which of the two they are."""
    labels = torch.randint(CLASSES, (rows,))
    waves = torch.sin(torch.arange(16) * 1.2 + 6.3 * torch.rand(rows, 1))
    across = waves[:, None, :].expand(rows, 16, 16)
    pictures = torch.where(labels.view(-1, 1, 1) == 0, across, across.transpose(1, 2))[:, None].expand(-1, 3, -1, -1)
    return (-pictures + 0.8 * torch.randn(rows, 3, 16, 16) if target else pictures), labels


def main() -> float:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Flatten(2))
    head = HeuristicHead(64, CLASSES, heuristics=3)
    align = EntropyConditionedAdversary(CLASSES, domains=2, width=128, horizon=STEPS)
    modules = nn.ModuleList([net, head, align])
    optimiser = torch.optim.SGD(modules.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    source, target = slice(0, ROWS), slice(ROWS, 2 * ROWS)
    domains = torch.tensor([1] * ROWS + [0] * ROWS)

    for step in range(STEPS):
        (pictures, labels), (unlabelled, _) = stripes(ROWS, target=False), stripes(ROWS, target=True)
        g, _, h = head(net(torch.cat([pictures, unlabelled])).amax(dim=2))
        loss = cross_entropy(g[source], labels)
        loss = loss + align(g, domains, (source, target), torch.tensor(float(step))) + termination(h)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 20 == 0 or step == STEPS - 1:
            print(f"step {step + 1}: loss {loss.item():.3f}, |cos(G, H)| {similarity(g, h).item():.3f}")

    with torch.no_grad():
        pictures, labels = stripes(500, target=True)
        right = (head(net(pictures).amax(dim=2)).g.argmax(dim=1) == labels).float().mean().item()
    print(f"{right:.0%} of the target's pictures are told right")
    return right


if __name__ == "__main__":
    main()
