//! The word lists that several kinds of sentences use, the common words of each list first.
//!
//! The notation is that of [`super::phrase::any`]: `_` joins the words of one item, `knife/knives` names an irregular
//! plural, `eat/ate/eating` the forms of an irregular verb.

pub(super) const NAMES_OF_WOMEN: &str = "anna mary emma lucy clara julia sarah ellen alice martha helen laura nora \
    ruth edith grace irene sophie vera ada hannah judith agnes miriam";
pub(super) const NAMES_OF_MEN: &str = "tom peter john paul henry jack oscar david george simon martin felix hugo \
    edgar walter victor arthur samuel daniel leo albert philip conrad adam";
pub(super) const WOMEN_OF_THE_FAMILY: &str = "mother sister aunt grandmother daughter niece";
pub(super) const MEN_OF_THE_FAMILY: &str = "father brother uncle grandfather son nephew";
pub(super) const FAMILY: &str = "brother sister father mother cousin aunt uncle grandmother grandfather";
pub(super) const RELATIVES: &str = "parents children cousins neighbours friends grandparents sisters brothers twins";
pub(super) const WOMEN: &str = "woman girl lady queen widow princess";
pub(super) const MEN: &str = "man boy gentleman king stranger prince";
pub(super) const FOLK: &str = "children women men boys girls students guests villagers tourists travellers pupils \
    visitors strangers";
pub(super) const PERSON_ADJECTIVES: &str = "old young kind clever tall quiet brave cheerful friendly patient lazy \
    proud shy honest busy gentle careful curious wise famous rich poor lonely polite strict stubborn";

pub(super) const FREQUENCY: &str = "often always usually sometimes frequently mostly";
pub(super) const MANNER: &str = "slowly quickly quietly carefully happily loudly gently patiently proudly eagerly \
    softly calmly bravely politely neatly nervously secretly gracefully";
pub(super) const PARTS_OF_DAY: &str = "in_the_morning in_the_evening in_the_afternoon at_noon at_night at_dawn \
    before_breakfast after_lunch after_dinner at_dusk at_midnight before_sunrise after_sunset";
pub(super) const DAYS: &str = "sunday monday saturday friday wednesday tuesday thursday";
pub(super) const MONTHS: &str = "may june september april october july august march december january november february";
pub(super) const SPANS: &str = "week summer year month winter spring autumn sunday friday monday saturday weekend";
pub(super) const RECURRING: &str = "day morning evening week afternoon summer year sunday night winter month spring \
    saturday weekend autumn";
pub(super) const NUMBERS: &str = "two three four five six ten seven eight twelve nine twenty";
pub(super) const COLOURS: &str = "red blue green white black brown yellow grey pink golden purple orange silver \
    crimson scarlet violet beige turquoise";
pub(super) const THING_ADJECTIVES: &str = "old new small big beautiful heavy little broken large strange clean dirty \
    cheap expensive wooden round useful rusty dusty shiny tiny plain elegant ugly";
pub(super) const PLACE_ADJECTIVES: &str = "old quiet small busy famous lovely dark crowded peaceful empty pretty";

pub(super) const TOWN_PLACES: &str = "market school library church station square park museum theatre hotel bank \
    bridge post_office castle harbour airport cinema bakery university town_hall hospital bookshop palace fountain";
pub(super) const WILD_PLACES: &str = "forest lake river hill mountain valley meadow island beach field pond stream \
    cliff desert swamp waterfall";
pub(super) const POSSESSIONS: &str = "key wallet umbrella watch/watches bag ring ticket purse passport suitcase \
    notebook handkerchief diary necklace";
pub(super) const READING: &str = "book letter story poem newspaper novel magazine postcard essay";
pub(super) const HEROES: &str = "dragon knight king ghost pirate giant witch princess treasure wizard unicorn \
    fairy dwarf prince";
pub(super) const ARTS: &str = "history music art law philosophy geography economics";
pub(super) const SCIENCES: &str = "mathematics biology physics chemistry medicine astronomy botany geology";
