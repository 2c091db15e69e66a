"""DomainNet (Peng et al., ICCV 2019): 345 classes in six styles, with an official split."""

from __future__ import annotations

from hda.data.datasets.base import Dataset, Domain, words


class DomainNet(Dataset):
    """DomainNet, with the official training and test lists: 409,832 and 176,743 pictures.

    The lists decide what is used: the archives of some domains hold more. Training, also of sources, is on the
    training parts; accuracy is measured on the target's test part.
    """

    name = "domainnet"
    title = "DomainNet"
    classes = words(
        """
        The_Eiffel_Tower The_Great_Wall_of_China The_Mona_Lisa aircraft_carrier airplane alarm_clock ambulance
        angel animal_migration ant anvil apple arm asparagus axe backpack banana bandage barn baseball
        baseball_bat basket basketball bat bathtub beach bear beard bed bee belt bench bicycle binoculars bird
        birthday_cake blackberry blueberry book boomerang bottlecap bowtie bracelet brain bread bridge broccoli
        broom bucket bulldozer bus bush butterfly cactus cake calculator calendar camel camera camouflage
        campfire candle cannon canoe car carrot castle cat ceiling_fan cell_phone cello chair chandelier church
        circle clarinet clock cloud coffee_cup compass computer cookie cooler couch cow crab crayon crocodile
        crown cruise_ship cup diamond dishwasher diving_board dog dolphin donut door dragon dresser drill drums
        duck dumbbell ear elbow elephant envelope eraser eye eyeglasses face fan feather fence finger
        fire_hydrant fireplace firetruck fish flamingo flashlight flip_flops floor_lamp flower flying_saucer
        foot fork frog frying_pan garden garden_hose giraffe goatee golf_club grapes grass guitar hamburger
        hammer hand harp hat headphones hedgehog helicopter helmet hexagon hockey_puck hockey_stick horse
        hospital hot_air_balloon hot_dog hot_tub hourglass house house_plant hurricane ice_cream jacket jail
        kangaroo key keyboard knee knife ladder lantern laptop leaf leg light_bulb lighter lighthouse lightning
        line lion lipstick lobster lollipop mailbox map marker matches megaphone mermaid microphone microwave
        monkey moon mosquito motorbike mountain mouse moustache mouth mug mushroom nail necklace nose ocean
        octagon octopus onion oven owl paint_can paintbrush palm_tree panda pants paper_clip parachute parrot
        passport peanut pear peas pencil penguin piano pickup_truck picture_frame pig pillow pineapple pizza
        pliers police_car pond pool popsicle postcard potato power_outlet purse rabbit raccoon radio rain
        rainbow rake remote_control rhinoceros rifle river roller_coaster rollerskates sailboat sandwich saw
        saxophone school_bus scissors scorpion screwdriver sea_turtle see_saw shark sheep shoe shorts shovel
        sink skateboard skull skyscraper sleeping_bag smiley_face snail snake snorkel snowflake snowman
        soccer_ball sock speedboat spider spoon spreadsheet square squiggle squirrel stairs star steak stereo
        stethoscope stitches stop_sign stove strawberry streetlight string_bean submarine suitcase sun swan
        sweater swing_set sword syringe t-shirt table teapot teddy-bear telephone television tennis_racquet tent
        tiger toaster toe toilet tooth toothbrush toothpaste tornado tractor traffic_light train tree triangle
        trombone truck trumpet umbrella underwear van vase violin washing_machine watermelon waterslide whale
        wheel windmill wine_bottle wine_glass wristwatch yoga zebra zigzag
        """
    )
    domains = (
        Domain("Clipart", "C", train=33525, test=14604),
        Domain("Infograph", "I", train=36023, test=15582),
        Domain("Painting", "P", train=50416, test=21850),
        Domain("Quickdraw", "Q", train=120750, test=51750),
        Domain("Real", "R", train=120906, test=52041),
        Domain("Sketch", "S", train=48212, test=20916),
    )
    parts = True
    more = True
    citation = "Peng, Bai, Xia, Huang, Saenko and Wang: Moment Matching for Multi-Source Domain Adaptation, ICCV 2019"
    licence = "fair use for research and education, not commercial; the pictures' copyrights remain with their owners"
    homepage = "http://ai.bu.edu/M3SDA/"
