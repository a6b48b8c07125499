//! Meals, drinks, cooking and shopping for food.

use crate::phrase::{Phrase, a, any, either, maybe, one_of, seq};
use crate::voice::{Tense, Who, adjectives, at, company, people, receiver, somewhere, subject, telling, tenses, timed};
use crate::words::*;

/// What is eaten at which meal.
const MEALS: &[(&str, &str)] = &[
    ("breakfast", "toast eggs porridge pancakes bread bacon muffins fruit honey yoghurt"),
    ("lunch", "soup sandwiches salad noodles cheese rice pasta beans sausages"),
    ("dinner", "fish stew chicken potatoes beef lamb turkey dumplings pork vegetables"),
    ("dessert", "cake ice_cream pudding apple_pie chocolate strawberries cherries"),
];

/// What is drunk from which vessel.
const DRINKS: &[(&str, &str)] = &[
    ("cup", "tea coffee cocoa milk"),
    ("glass", "water milk wine juice lemonade cider"),
    ("bottle", "wine beer water lemonade"),
    ("bowl", "soup porridge broth rice"),
];

/// Who sells what.
const SELLERS: &[(&str, &str)] = &[
    ("baker", "bread cakes buns pies biscuits"),
    ("greengrocer", "potatoes carrots apples onions cabbages pears beans turnips"),
    ("butcher", "sausages ham beef bacon meat"),
    ("fishmonger", "trout herring salmon fish"),
    ("farmer", "eggs milk butter cheese cream plums"),
    ("grocer", "sugar flour rice salt pepper"),
];

/// How what is cooked, and with or in what.
const METHODS: &[(&str, &str, &str)] = &[
    ("boil", "eggs potatoes rice pasta cabbage", "in pot saucepan"),
    ("fry", "onions sausages mushrooms eggs fish", "in pan saucepan"),
    ("peel", "potatoes oranges carrots apples onions", "with knife spoon"),
    ("roast", "chestnuts chicken lamb turkey", "in oven pan"),
    ("stir/stirred/stirring", "soup porridge sauce jam stew", "with spoon ladle"),
];

/// Which taste belongs to what: singular, plural, adjectives.
const TASTES: &[(&str, &str, &str)] = &[
    ("soup stew sauce broth porridge", "noodles dumplings potatoes beans", "hot salty spicy thick tasty cold"),
    ("apple pear peach lemon", "plums cherries oranges strawberries", "ripe sweet sour juicy bitter"),
    ("bread cake toast pie cheese", "biscuits buns pancakes muffins", "fresh stale delicious dry burnt"),
];

pub(super) fn sentences() -> Phrase {
    either![
        6 => meals(),
        4 => telling(drinking),
        5 => telling(shopping),
        4 => telling(cooking),
        3 => tenses(|tense| one_of(TASTES, |&(single, several, adjectives)| tasting(single, several, adjectives, tense))),
    ]
}

/// "for breakfast anna ate toast ." or "anna ate toast for breakfast yesterday ."
fn meals() -> Phrase {
    let eats = |who: Who, tense: Tense| {
        seq![subject(who), tense.does(who, "eat/ate/eating have/had/having cook serve make/made/making")]
    };
    let food = |foods: &str| seq![maybe(0.35, any("warm fresh cold delicious simple good sweet tasty")), any(foods)];
    tenses(|tense| {
        either![
            2 => one_of(MEALS, |&(meal, foods)| {
                seq!["for", meal, maybe(0.25, ","), people(|who| eats(who, tense)), food(foods), "."]
            }),
            3 => timed(tense, seq![
                people(|who| eats(who, tense)),
                one_of(MEALS, |&(meal, foods)| seq![food(foods), "for", meal]),
            ]),
        ]
    })
}

fn drinking(who: Who, tense: Tense) -> Phrase {
    let vessel = one_of(DRINKS, |&(vessel, drinks)| {
        seq![a(vessel), "of", maybe(0.3, any("hot cold warm fresh good")), any(drinks)]
    });
    seq![
        subject(who),
        either![
            4 => seq![tense.does(who, "drink/drank/drinking order want enjoy"), &vessel],
            2 => seq![tense.does(who, "bring/brought/bringing give/gave/giving"), receiver(who), &vessel],
        ],
        maybe(
            0.4,
            either![
                1 => at("in_the_kitchen at_the_cafe by_the_fire under_the_tree in_the_garden"), 1 => somewhere(),
                2 => company(who),
            ]
        ),
    ]
}

fn shopping(who: Who, tense: Tense) -> Phrase {
    seq![
        subject(who),
        either![
            3 => seq![tense.does(who, "buy/bought/buying get/got/getting order"), one_of(SELLERS, |&(seller, goods)| {
                seq![amount(goods), "from the", adjectives(PERSON_ADJECTIVES), seller]
            })],
            2 => seq![tense.does(who, "go/went/going walk run/ran/running"), "to the", one_of(SELLERS, |&(seller, goods)| {
                seq![seller, "to", any("buy get fetch"), amount(goods)]
            })],
        ],
        maybe(
            0.35,
            either![
                1 => "at the market", 1 => seq!["for", either![1 => any(NAMES_OF_WOMEN), 1 => any(NAMES_OF_MEN)]],
                1 => company(who),
            ]
        ),
    ]
}

fn amount(goods: &str) -> Phrase {
    seq![maybe(0.6, any("some fresh cheap the a_lot_of good a_few_pounds_of")), any(goods)]
}

fn cooking(who: Who, tense: Tense) -> Phrase {
    let methods = one_of(METHODS, |&(method, foods, vessel)| {
        let (preposition, vessels) = vessel.split_once(' ').unwrap_or(("in", vessel));
        seq![
            tense.does(who, method),
            "the",
            maybe(0.25, any("fresh other small big last")),
            any(foods),
            maybe(0.6, seq![preposition, a(seq![maybe(0.35, any("big small clean heavy old little")), any(vessels)])]),
        ]
    });
    seq![subject(who), methods, maybe(0.35, company(who))]
}

/// "the plums in the basket were ripe ."
fn tasting(single: &str, several: &str, adjectives: &str, tense: Tense) -> Phrase {
    let whence = maybe(
        0.4,
        either![
            2 => seq!["from the", any(TOWN_PLACES)],
            2 => seq!["in the", any("bowls basket boxes bag baskets box")],
            1 => seq!["on the", any("plates table tray shelves")],
        ],
    );
    let taste = seq![maybe(0.5, any("very too quite rather")), any(adjectives), "."];
    let is = |who: Who| either![2 => tense.is(who), 1 => tense.simply_does(who, "taste smell")];
    either![
        3 => seq!["the", any(single), &whence, is(Who::It), &taste],
        2 => seq!["the", maybe(0.2, any(NUMBERS)), any(several), &whence, is(Who::They), &taste],
    ]
}
