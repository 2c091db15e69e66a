"""DomainNet-126 (Saito et al., ICCV 2019): the 126 classes and four domains of DomainNet that are clean enough."""

from __future__ import annotations

from hda.data.datasets.base import Dataset, Domain, words


class DomainNet126(Dataset):
    """DomainNet-126, whose published lists have one and three labelled target pictures a class.

    A folder of the whole of DomainNet will do: other classes are passed over, and so are pictures that the lists of
    sources, where they are there, do not name. The counts are those lists'.
    """

    name = "domainnet-126"
    title = "DomainNet-126"
    classes = words(
        """
        The_Eiffel_Tower The_Great_Wall_of_China aircraft_carrier alarm_clock ant anvil asparagus axe banana
        basket bathtub bear bee bird blackberry blueberry bottlecap broccoli bus butterfly cactus cake
        calculator camel camera candle cannon canoe carrot castle cat ceiling_fan cell_phone cello chair
        chandelier coffee_cup compass computer cow crab crocodile cruise_ship dog dolphin dragon drums duck
        dumbbell elephant eyeglasses feather fence fish flamingo flower foot fork frog giraffe goatee grapes
        guitar hammer helicopter helmet horse kangaroo lantern laptop leaf lion lipstick lobster microphone
        monkey mosquito mouse mug mushroom onion panda peanut pear peas pencil penguin pig pillow pineapple
        potato power_outlet purse rabbit raccoon rhinoceros rifle saxophone screwdriver sea_turtle see_saw sheep
        shoe skateboard snake speedboat spider squirrel strawberry streetlight string_bean submarine swan table
        teapot teddy-bear television tiger toe train truck umbrella vase watermelon whale zebra
        """
    )
    domains = (
        Domain("Clipart", "C", images=18703),
        Domain("Painting", "P", images=31502),
        Domain("Real", "R", images=70358),
        Domain("Sketch", "S", images=24582),
    )
    others = False
    more = True
    citation = (
        "Saito, Kim, Sclaroff, Darrell and Saenko: Semi-supervised Domain Adaptation via Minimax Entropy, ICCV 2019"
    )
    licence = "DomainNet's: fair use for research and education, not commercial"
    homepage = "https://github.com/VisionLearningGroup/SSDA_MME"
