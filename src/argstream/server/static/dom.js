import { ServerProblem } from "./argstream.js";
/** @import { Call, Client, EventFrame } from "./argstream.js" */

// What a model wrote, made safe to show: the same table and the same rules as in
// argstream/sanitise.py, where they are explained. Each character is spelled alike wherever it
// stands, so a stream can be made visible piece by piece.

/**
 * Characters that are shown as escapes: `argstream.sanitise.table()`, with which a test compares it.
 * @type {{ opening: string, closing: string, kept: string, ranges: [number, number][],
 *   names: Record<string, string>, latin: string, scripts: Record<string, string>, marks: string }}
 */
const TABLE = {
  opening: "\u27e6",
  closing: "\u27e7",
  kept: "\t\n",
  ranges: [
    [0,31], [127,160], [173,173], [847,847], [888,889], [896,899], [907,907], [909,909], [930,930],
    [1328,1328], [1367,1368], [1419,1420], [1424,1424], [1480,1487], [1515,1518], [1525,1541],
    [1564,1564], [1757,1757], [1806,1807], [1867,1868], [1970,1983], [2043,2044], [2094,2095],
    [2111,2111], [2140,2141], [2143,2143], [2155,2159], [2191,2199], [2274,2274], [2436,2436],
    [2445,2446], [2449,2450], [2473,2473], [2481,2481], [2483,2485], [2490,2491], [2501,2502],
    [2505,2506], [2511,2518], [2520,2523], [2526,2526], [2532,2533], [2559,2560], [2564,2564],
    [2571,2574], [2577,2578], [2601,2601], [2609,2609], [2612,2612], [2615,2615], [2618,2619],
    [2621,2621], [2627,2630], [2633,2634], [2638,2640], [2642,2648], [2653,2653], [2655,2661],
    [2679,2688], [2692,2692], [2702,2702], [2706,2706], [2729,2729], [2737,2737], [2740,2740],
    [2746,2747], [2758,2758], [2762,2762], [2766,2767], [2769,2783], [2788,2789], [2802,2808],
    [2816,2816], [2820,2820], [2829,2830], [2833,2834], [2857,2857], [2865,2865], [2868,2868],
    [2874,2875], [2885,2886], [2889,2890], [2894,2900], [2904,2907], [2910,2910], [2916,2917],
    [2936,2945], [2948,2948], [2955,2957], [2961,2961], [2966,2968], [2971,2971], [2973,2973],
    [2976,2978], [2981,2983], [2987,2989], [3002,3005], [3011,3013], [3017,3017], [3022,3023],
    [3025,3030], [3032,3045], [3067,3071], [3085,3085], [3089,3089], [3113,3113], [3130,3131],
    [3141,3141], [3145,3145], [3150,3156], [3159,3159], [3163,3164], [3166,3167], [3172,3173],
    [3184,3190], [3213,3213], [3217,3217], [3241,3241], [3252,3252], [3258,3259], [3269,3269],
    [3273,3273], [3278,3284], [3287,3292], [3295,3295], [3300,3301], [3312,3312], [3315,3327],
    [3341,3341], [3345,3345], [3397,3397], [3401,3401], [3408,3411], [3428,3429], [3456,3456],
    [3460,3460], [3479,3481], [3506,3506], [3516,3516], [3518,3519], [3527,3529], [3531,3534],
    [3541,3541], [3543,3543], [3552,3557], [3568,3569], [3573,3584], [3643,3646], [3676,3712],
    [3715,3715], [3717,3717], [3723,3723], [3748,3748], [3750,3750], [3774,3775], [3781,3781],
    [3783,3783], [3790,3791], [3802,3803], [3808,3839], [3912,3912], [3949,3952], [3992,3992],
    [4029,4029], [4045,4045], [4059,4095], [4294,4294], [4296,4300], [4302,4303], [4447,4448],
    [4681,4681], [4686,4687], [4695,4695], [4697,4697], [4702,4703], [4745,4745], [4750,4751],
    [4785,4785], [4790,4791], [4799,4799], [4801,4801], [4806,4807], [4823,4823], [4881,4881],
    [4886,4887], [4955,4956], [4989,4991], [5018,5023], [5110,5111], [5118,5119], [5760,5760],
    [5789,5791], [5881,5887], [5910,5918], [5943,5951], [5972,5983], [5997,5997], [6001,6001],
    [6004,6015], [6068,6069], [6110,6111], [6122,6127], [6138,6143], [6155,6159], [6170,6175],
    [6265,6271], [6315,6319], [6390,6399], [6431,6431], [6444,6447], [6460,6463], [6465,6467],
    [6510,6511], [6517,6527], [6572,6575], [6602,6607], [6619,6621], [6684,6685], [6751,6751],
    [6781,6782], [6794,6799], [6810,6815], [6830,6831], [6863,6911], [6989,6991], [7039,7039],
    [7156,7163], [7224,7226], [7242,7244], [7305,7311], [7355,7356], [7368,7375], [7419,7423],
    [7958,7959], [7966,7967], [8006,8007], [8014,8015], [8024,8024], [8026,8026], [8028,8028],
    [8030,8030], [8062,8063], [8117,8117], [8133,8133], [8148,8149], [8156,8156], [8176,8177],
    [8181,8181], [8191,8207], [8232,8239], [8287,8303], [8306,8307], [8335,8335], [8349,8351],
    [8385,8399], [8433,8447], [8588,8591], [9255,9279], [9291,9311], [10214,10214], [10240,10240],
    [11124,11125], [11158,11158], [11508,11512], [11558,11558], [11560,11564], [11566,11567],
    [11624,11630], [11633,11646], [11671,11679], [11687,11687], [11695,11695], [11703,11703],
    [11711,11711], [11719,11719], [11727,11727], [11735,11735], [11743,11743], [11870,11903],
    [11930,11930], [12020,12031], [12246,12271], [12284,12287], [12352,12352], [12439,12440],
    [12544,12548], [12592,12592], [12644,12644], [12687,12687], [12772,12783], [12831,12831],
    [42125,42127], [42183,42191], [42540,42559], [42744,42751], [42955,42959], [42962,42962],
    [42964,42964], [42970,42993], [43053,43055], [43066,43071], [43128,43135], [43206,43213],
    [43226,43231], [43348,43358], [43389,43391], [43470,43470], [43482,43485], [43519,43519],
    [43575,43583], [43598,43599], [43610,43611], [43715,43738], [43767,43776], [43783,43784],
    [43791,43792], [43799,43807], [43815,43815], [43823,43823], [43884,43887], [44014,44015],
    [44026,44031], [55204,55215], [55239,55242], [55292,63743], [64110,64111], [64218,64255],
    [64263,64274], [64280,64284], [64311,64311], [64317,64317], [64319,64319], [64322,64322],
    [64325,64325], [64451,64466], [64912,64913], [64968,64974], [64976,65007], [65024,65039],
    [65050,65055], [65107,65107], [65127,65127], [65132,65135], [65141,65141], [65277,65280],
    [65440,65440], [65471,65473], [65480,65481], [65488,65489], [65496,65497], [65501,65503],
    [65511,65511], [65519,65531], [65534,65535], [65548,65548], [65575,65575], [65595,65595],
    [65598,65598], [65614,65615], [65630,65663], [65787,65791], [65795,65798], [65844,65846],
    [65935,65935], [65949,65951], [65953,65999], [66046,66175], [66205,66207], [66257,66271],
    [66300,66303], [66340,66348], [66379,66383], [66427,66431], [66462,66462], [66500,66503],
    [66518,66559], [66718,66719], [66730,66735], [66772,66775], [66812,66815], [66856,66863],
    [66916,66926], [66939,66939], [66955,66955], [66963,66963], [66966,66966], [66978,66978],
    [66994,66994], [67002,67002], [67005,67071], [67383,67391], [67414,67423], [67432,67455],
    [67462,67462], [67505,67505], [67515,67583], [67590,67591], [67593,67593], [67638,67638],
    [67641,67643], [67645,67646], [67670,67670], [67743,67750], [67760,67807], [67827,67827],
    [67830,67834], [67868,67870], [67898,67902], [67904,67967], [68024,68027], [68048,68049],
    [68100,68100], [68103,68107], [68116,68116], [68120,68120], [68150,68151], [68155,68158],
    [68169,68175], [68185,68191], [68256,68287], [68327,68330], [68343,68351], [68406,68408],
    [68438,68439], [68467,68471], [68498,68504], [68509,68520], [68528,68607], [68681,68735],
    [68787,68799], [68851,68857], [68904,68911], [68922,69215], [69247,69247], [69290,69290],
    [69294,69295], [69298,69375], [69416,69423], [69466,69487], [69514,69551], [69580,69599],
    [69623,69631], [69710,69713], [69750,69758], [69821,69821], [69827,69839], [69865,69871],
    [69882,69887], [69941,69941], [69960,69967], [70007,70015], [70112,70112], [70133,70143],
    [70162,70162], [70207,70271], [70279,70279], [70281,70281], [70286,70286], [70302,70302],
    [70314,70319], [70379,70383], [70394,70399], [70404,70404], [70413,70414], [70417,70418],
    [70441,70441], [70449,70449], [70452,70452], [70458,70458], [70469,70470], [70473,70474],
    [70478,70479], [70481,70486], [70488,70492], [70500,70501], [70509,70511], [70517,70655],
    [70748,70748], [70754,70783], [70856,70863], [70874,71039], [71094,71095], [71134,71167],
    [71237,71247], [71258,71263], [71277,71295], [71354,71359], [71370,71423], [71451,71452],
    [71468,71471], [71495,71679], [71740,71839], [71923,71934], [71943,71944], [71946,71947],
    [71956,71956], [71959,71959], [71990,71990], [71993,71994], [72007,72015], [72026,72095],
    [72104,72105], [72152,72153], [72165,72191], [72264,72271], [72355,72367], [72441,72703],
    [72713,72713], [72759,72759], [72774,72783], [72813,72815], [72848,72849], [72872,72872],
    [72887,72959], [72967,72967], [72970,72970], [73015,73017], [73019,73019], [73022,73022],
    [73032,73039], [73050,73055], [73062,73062], [73065,73065], [73103,73103], [73106,73106],
    [73113,73119], [73130,73439], [73465,73647], [73649,73663], [73714,73726], [74650,74751],
    [74863,74863], [74869,74879], [75076,77711], [77811,77823], [78895,82943], [83527,92159],
    [92729,92735], [92767,92767], [92778,92781], [92863,92863], [92874,92879], [92910,92911],
    [92918,92927], [92998,93007], [93018,93018], [93026,93026], [93048,93052], [93072,93759],
    [93851,93951], [94027,94030], [94088,94094], [94112,94175], [94180,94191], [94194,94207],
    [100344,100351], [101590,101631], [101641,110575], [110580,110580], [110588,110588],
    [110591,110591], [110883,110927], [110931,110947], [110952,110959], [111356,113663],
    [113771,113775], [113789,113791], [113801,113807], [113818,113819], [113824,118527],
    [118574,118575], [118599,118607], [118724,118783], [119030,119039], [119079,119080],
    [119129,119129], [119155,119162], [119275,119295], [119366,119519], [119540,119551],
    [119639,119647], [119673,119807], [119893,119893], [119965,119965], [119968,119969],
    [119971,119972], [119975,119976], [119981,119981], [119994,119994], [119996,119996],
    [120004,120004], [120070,120070], [120075,120076], [120085,120085], [120093,120093],
    [120122,120122], [120127,120127], [120133,120133], [120135,120137], [120145,120145],
    [120486,120487], [120780,120781], [121484,121498], [121504,121504], [121520,122623],
    [122655,122879], [122887,122887], [122905,122906], [122914,122914], [122917,122917],
    [122923,123135], [123181,123183], [123198,123199], [123210,123213], [123216,123535],
    [123567,123583], [123642,123646], [123648,124895], [124903,124903], [124908,124908],
    [124911,124911], [124927,124927], [125125,125126], [125143,125183], [125260,125263],
    [125274,125277], [125280,126064], [126133,126208], [126270,126463], [126468,126468],
    [126496,126496], [126499,126499], [126501,126502], [126504,126504], [126515,126515],
    [126520,126520], [126522,126522], [126524,126529], [126531,126534], [126536,126536],
    [126538,126538], [126540,126540], [126544,126544], [126547,126547], [126549,126550],
    [126552,126552], [126554,126554], [126556,126556], [126558,126558], [126560,126560],
    [126563,126563], [126565,126566], [126571,126571], [126579,126579], [126584,126584],
    [126589,126589], [126591,126591], [126602,126602], [126620,126624], [126628,126628],
    [126634,126634], [126652,126703], [126706,126975], [127020,127023], [127124,127135],
    [127151,127152], [127168,127168], [127184,127184], [127222,127231], [127406,127461],
    [127491,127503], [127548,127551], [127561,127567], [127570,127583], [127590,127743],
    [128728,128732], [128749,128751], [128765,128767], [128884,128895], [128985,128991],
    [129004,129007], [129009,129023], [129036,129039], [129096,129103], [129114,129119],
    [129160,129167], [129198,129199], [129202,129279], [129620,129631], [129646,129647],
    [129653,129655], [129661,129663], [129671,129679], [129709,129711], [129723,129727],
    [129734,129743], [129754,129759], [129768,129775], [129783,129791], [129939,129939],
    [129995,130031], [130042,131071], [173792,173823], [177977,177983], [178206,178207],
    [183970,183983], [191457,194559], [195102,196607], [201547,1114111],
  ],
  names: {
    "U+0000": "NUL", "U+0001": "SOH", "U+0002": "STX", "U+0003": "ETX", "U+0004": "EOT",
    "U+0005": "ENQ", "U+0006": "ACK", "U+0007": "BEL", "U+0008": "BS", "U+0009": "TAB",
    "U+000A": "LF", "U+000B": "VT", "U+000C": "FF", "U+000D": "CR", "U+000E": "SO", "U+000F": "SI",
    "U+0010": "DLE", "U+0011": "DC1", "U+0012": "DC2", "U+0013": "DC3", "U+0014": "DC4",
    "U+0015": "NAK", "U+0016": "SYN", "U+0017": "ETB", "U+0018": "CAN", "U+0019": "EOM",
    "U+001A": "SUB", "U+001B": "ESC", "U+001C": "FS", "U+001D": "GS", "U+001E": "RS",
    "U+001F": "US", "U+007F": "DEL", "U+0080": "PAD", "U+0081": "HOP", "U+0082": "BPH",
    "U+0083": "NBH", "U+0084": "IND", "U+0085": "NEL", "U+0086": "SSA", "U+0087": "ESA",
    "U+0088": "HTS", "U+0089": "HTJ", "U+008A": "VTS", "U+008B": "PLD", "U+008C": "PLU",
    "U+008D": "RI", "U+008E": "SS2", "U+008F": "SS3", "U+0090": "DCS", "U+0091": "PU1",
    "U+0092": "PU2", "U+0093": "STS", "U+0094": "CCH", "U+0095": "MW", "U+0096": "SPA",
    "U+0097": "EPA", "U+0098": "SOS", "U+0099": "SGC", "U+009A": "SCI", "U+009B": "CSI",
    "U+009C": "ST", "U+009D": "OSC", "U+009E": "PM", "U+009F": "APC", "U+00A0": "NBSP",
    "U+00AD": "SHY", "U+034F": "CGJ", "U+061C": "ALM", "U+180B": "FVS1", "U+180C": "FVS2",
    "U+180D": "FVS3", "U+180E": "MVS", "U+180F": "FVS4", "U+200B": "ZWSP", "U+200C": "ZWNJ",
    "U+200D": "ZWJ", "U+200E": "LRM", "U+200F": "RLM", "U+202A": "LRE", "U+202B": "RLE",
    "U+202C": "PDF", "U+202D": "LRO", "U+202E": "RLO", "U+202F": "NNBSP", "U+205F": "MMSP",
    "U+2060": "WJ", "U+2066": "LRI", "U+2067": "RLI", "U+2068": "FSI", "U+2069": "PDI",
    "U+FE00": "VS1", "U+FE01": "VS2", "U+FE02": "VS3", "U+FE03": "VS4", "U+FE04": "VS5",
    "U+FE05": "VS6", "U+FE06": "VS7", "U+FE07": "VS8", "U+FE08": "VS9", "U+FE09": "VS10",
    "U+FE0A": "VS11", "U+FE0B": "VS12", "U+FE0C": "VS13", "U+FE0D": "VS14", "U+FE0E": "VS15",
    "U+FE0F": "VS16", "U+FEFF": "BOM", "U+E0100": "VS17", "U+E0101": "VS18", "U+E0102": "VS19",
    "U+E0103": "VS20", "U+E0104": "VS21", "U+E0105": "VS22", "U+E0106": "VS23", "U+E0107": "VS24",
    "U+E0108": "VS25", "U+E0109": "VS26", "U+E010A": "VS27", "U+E010B": "VS28", "U+E010C": "VS29",
    "U+E010D": "VS30", "U+E010E": "VS31", "U+E010F": "VS32", "U+E0110": "VS33", "U+E0111": "VS34",
    "U+E0112": "VS35", "U+E0113": "VS36", "U+E0114": "VS37", "U+E0115": "VS38", "U+E0116": "VS39",
    "U+E0117": "VS40", "U+E0118": "VS41", "U+E0119": "VS42", "U+E011A": "VS43", "U+E011B": "VS44",
    "U+E011C": "VS45", "U+E011D": "VS46", "U+E011E": "VS47", "U+E011F": "VS48", "U+E0120": "VS49",
    "U+E0121": "VS50", "U+E0122": "VS51", "U+E0123": "VS52", "U+E0124": "VS53", "U+E0125": "VS54",
    "U+E0126": "VS55", "U+E0127": "VS56", "U+E0128": "VS57", "U+E0129": "VS58", "U+E012A": "VS59",
    "U+E012B": "VS60", "U+E012C": "VS61", "U+E012D": "VS62", "U+E012E": "VS63", "U+E012F": "VS64",
    "U+E0130": "VS65", "U+E0131": "VS66", "U+E0132": "VS67", "U+E0133": "VS68", "U+E0134": "VS69",
    "U+E0135": "VS70", "U+E0136": "VS71", "U+E0137": "VS72", "U+E0138": "VS73", "U+E0139": "VS74",
    "U+E013A": "VS75", "U+E013B": "VS76", "U+E013C": "VS77", "U+E013D": "VS78", "U+E013E": "VS79",
    "U+E013F": "VS80", "U+E0140": "VS81", "U+E0141": "VS82", "U+E0142": "VS83", "U+E0143": "VS84",
    "U+E0144": "VS85", "U+E0145": "VS86", "U+E0146": "VS87", "U+E0147": "VS88", "U+E0148": "VS89",
    "U+E0149": "VS90", "U+E014A": "VS91", "U+E014B": "VS92", "U+E014C": "VS93", "U+E014D": "VS94",
    "U+E014E": "VS95", "U+E014F": "VS96", "U+E0150": "VS97", "U+E0151": "VS98", "U+E0152": "VS99",
    "U+E0153": "VS100", "U+E0154": "VS101", "U+E0155": "VS102", "U+E0156": "VS103",
    "U+E0157": "VS104", "U+E0158": "VS105", "U+E0159": "VS106", "U+E015A": "VS107",
    "U+E015B": "VS108", "U+E015C": "VS109", "U+E015D": "VS110", "U+E015E": "VS111",
    "U+E015F": "VS112", "U+E0160": "VS113", "U+E0161": "VS114", "U+E0162": "VS115",
    "U+E0163": "VS116", "U+E0164": "VS117", "U+E0165": "VS118", "U+E0166": "VS119",
    "U+E0167": "VS120", "U+E0168": "VS121", "U+E0169": "VS122", "U+E016A": "VS123",
    "U+E016B": "VS124", "U+E016C": "VS125", "U+E016D": "VS126", "U+E016E": "VS127",
    "U+E016F": "VS128", "U+E0170": "VS129", "U+E0171": "VS130", "U+E0172": "VS131",
    "U+E0173": "VS132", "U+E0174": "VS133", "U+E0175": "VS134", "U+E0176": "VS135",
    "U+E0177": "VS136", "U+E0178": "VS137", "U+E0179": "VS138", "U+E017A": "VS139",
    "U+E017B": "VS140", "U+E017C": "VS141", "U+E017D": "VS142", "U+E017E": "VS143",
    "U+E017F": "VS144", "U+E0180": "VS145", "U+E0181": "VS146", "U+E0182": "VS147",
    "U+E0183": "VS148", "U+E0184": "VS149", "U+E0185": "VS150", "U+E0186": "VS151",
    "U+E0187": "VS152", "U+E0188": "VS153", "U+E0189": "VS154", "U+E018A": "VS155",
    "U+E018B": "VS156", "U+E018C": "VS157", "U+E018D": "VS158", "U+E018E": "VS159",
    "U+E018F": "VS160", "U+E0190": "VS161", "U+E0191": "VS162", "U+E0192": "VS163",
    "U+E0193": "VS164", "U+E0194": "VS165", "U+E0195": "VS166", "U+E0196": "VS167",
    "U+E0197": "VS168", "U+E0198": "VS169", "U+E0199": "VS170", "U+E019A": "VS171",
    "U+E019B": "VS172", "U+E019C": "VS173", "U+E019D": "VS174", "U+E019E": "VS175",
    "U+E019F": "VS176", "U+E01A0": "VS177", "U+E01A1": "VS178", "U+E01A2": "VS179",
    "U+E01A3": "VS180", "U+E01A4": "VS181", "U+E01A5": "VS182", "U+E01A6": "VS183",
    "U+E01A7": "VS184", "U+E01A8": "VS185", "U+E01A9": "VS186", "U+E01AA": "VS187",
    "U+E01AB": "VS188", "U+E01AC": "VS189", "U+E01AD": "VS190", "U+E01AE": "VS191",
    "U+E01AF": "VS192", "U+E01B0": "VS193", "U+E01B1": "VS194", "U+E01B2": "VS195",
    "U+E01B3": "VS196", "U+E01B4": "VS197", "U+E01B5": "VS198", "U+E01B6": "VS199",
    "U+E01B7": "VS200", "U+E01B8": "VS201", "U+E01B9": "VS202", "U+E01BA": "VS203",
    "U+E01BB": "VS204", "U+E01BC": "VS205", "U+E01BD": "VS206", "U+E01BE": "VS207",
    "U+E01BF": "VS208", "U+E01C0": "VS209", "U+E01C1": "VS210", "U+E01C2": "VS211",
    "U+E01C3": "VS212", "U+E01C4": "VS213", "U+E01C5": "VS214", "U+E01C6": "VS215",
    "U+E01C7": "VS216", "U+E01C8": "VS217", "U+E01C9": "VS218", "U+E01CA": "VS219",
    "U+E01CB": "VS220", "U+E01CC": "VS221", "U+E01CD": "VS222", "U+E01CE": "VS223",
    "U+E01CF": "VS224", "U+E01D0": "VS225", "U+E01D1": "VS226", "U+E01D2": "VS227",
    "U+E01D3": "VS228", "U+E01D4": "VS229", "U+E01D5": "VS230", "U+E01D6": "VS231",
    "U+E01D7": "VS232", "U+E01D8": "VS233", "U+E01D9": "VS234", "U+E01DA": "VS235",
    "U+E01DB": "VS236", "U+E01DC": "VS237", "U+E01DD": "VS238", "U+E01DE": "VS239",
    "U+E01DF": "VS240", "U+E01E0": "VS241", "U+E01E1": "VS242", "U+E01E2": "VS243",
    "U+E01E3": "VS244", "U+E01E4": "VS245", "U+E01E5": "VS246", "U+E01E6": "VS247",
    "U+E01E7": "VS248", "U+E01E8": "VS249", "U+E01E9": "VS250", "U+E01EA": "VS251",
    "U+E01EB": "VS252", "U+E01EC": "VS253", "U+E01ED": "VS254", "U+E01EE": "VS255",
    "U+E01EF": "VS256",
  },
  latin: "A-Za-z\u00c0-\u024f\u1e00-\u1eff",
  scripts: {
    "Armenian": "\u0531-\u0587",
    "Cherokee": "\u13a0-\u13fd\uab70-\uabbf",
    "Coptic": "\u2c80-\u2cf3",
    "Cyrillic": "\u0400-\u0481\u048a-\u052f\u1c80-\u1c88\ua640-\ua66e\ua680-\ua69d",
    "Greek": "\u037f\u0391\u0392\u0395-\u0397\u0399\u039a\u039c-\u039f\u03a1\u03a4\u03a5\u03a7\u03b1\u03b3\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03f2\u03f3\u03f9\u1f00-\u1ffc",
    "Lisu": "\ua4d0-\ua4fd",
  },
  marks: "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u06d6-\u06dc\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0f71-\u0f84\u1ab0-\u1ace\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f",
};

const { opening, closing, kept: SHOWN } = TABLE;
const names = new Map(Object.entries(TABLE.names));
const codes = new Map([...names].map(([number, name]) => [name, parseInt(number.slice(2), 16)]));

const hidden = pattern("");
const hiddenInText = pattern(SHOWN);
const plainText = /^[\t\n\x20-\x7e]*$/;
const plainLine = /^[\x20-\x7e]*$/;
const spelling = new RegExp(
  `${opening}(?:U\\+((?:[1-9A-F]|10)?[0-9A-F]{4})|([A-Z0-9]+))${closing}`,
  "gu",
);

/**
 * Spell out what would act or hide; newlines and tabs stay.
 * @param {string} text
 */
export function visible(text) {
  return plainText.test(text) ? text : text.replace(hiddenInText, spell);
}

/**
 * Spell out newlines and tabs too: for a name, an id, a heading, which are one line.
 * @param {string} text
 */
export function visibleLine(text) {
  return plainLine.test(text) ? text : text.replace(hidden, spell);
}

/**
 * Read back what `visible` or `visibleLine` has spelled, for instance after an edit.
 * What is not a spelling stays as it is.
 * @param {string} shown
 */
export function original(shown) {
  return shown.replace(spelling, (whole, number, name) => {
    const code = number ? parseInt(number, 16) : codes.get(name);
    return code === undefined ? whole : String.fromCodePoint(code);
  });
}

const { latin, marks } = TABLE;
const mixedWith = Object.values(TABLE.scripts).join("");
// Each alternative ends where the script changes. A letter after a backslash may be an escape: \n
const change = new RegExp(
  `(?<!\\\\)[${latin}][0-9${marks}]{0,8}(?=[${mixedWith}])`
    + `|[${mixedWith}][0-9${marks}]{0,8}(?=[${latin}])`,
  "g",
);
const stack = new RegExp(`[${marks}]{5,}`, "g");
const inWord = new RegExp(`[0-9${latin}${mixedWith}]`);
const isLatin = new RegExp(`[${latin}]`);
const MAX_WORD = 20;
const MAX_WARNINGS = 3;
const MAX_FOUND = 1000;

/**
 * Return warnings about texts in a JSON value that may not be what they seem, as
 * `argstream.sanitise.warnings_about` does: words that mix scripts, and stacks of marks.
 * @param {unknown} value
 * @returns {string[]}
 */
export function warningsAbout(value) {
  /** @type {Set<string>} */
  const found = new Set();
  const values = [value];
  let left = MAX_FOUND;
  while (values.length) {
    const one = values.pop();
    if (typeof one === "string" && !plainText.test(one)) {
      for (const warning of warningsIn(one)) {
        left -= 1;
        if (!left || (found.size === MAX_WARNINGS && !found.has(warning))) {
          return [...found, "More such words"];
        }
        found.add(warning);
      }
    } else if (Array.isArray(one)) {
      for (const item of one.toReversed()) values.push(item);
    } else if (one && typeof one === "object") {
      for (const [name, member] of Object.entries(one).reverse()) values.push(member, name);
    }
  }
  return [...found];
}

/** @param {string} text */
function* warningsIn(text) {
  for (const { 0: changed, index } of text.matchAll(change)) {
    let [start, end] = [index, index + changed.length];
    const other = isLatin.test(changed[0] ?? "") ? text[end] ?? "" : changed[0] ?? "";
    while (index - start < MAX_WORD && inWord.test(text[start - 1] ?? "")) start -= 1;
    while (end - index - changed.length < MAX_WORD && inWord.test(text[end] ?? "")) end += 1;
    const script = Object.entries(TABLE.scripts)
      .find(([, letters]) => new RegExp(`[${letters}]`).test(other))?.[0];
    const word = visibleLine(text.slice(start, end));
    const number = numberOf(other.codePointAt(0) ?? 0);
    yield `Mixed scripts: “${word}” has ${script} ${other} (${number})`;
  }
  for (const { 0: marked, index } of text.matchAll(stack)) {
    const base = visibleLine([...text.slice(Math.max(index - 2, 0), index)].at(-1) ?? "");
    yield `Stacked marks: “${base}” has ${marked.length} combining marks`;
  }
}

/** @param {string} character */
function spell(character) {
  const number = numberOf(character.codePointAt(0) ?? 0);
  return opening + (names.get(number) ?? number) + closing;
}

/** @param {number} code */
function numberOf(code) {
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

/**
 * Make the pattern for what is spelled out.
 * @param {string} except
 */
function pattern(except) {
  const exceptions = [...except].map((character) => character.codePointAt(0) ?? 0);
  let set = "";
  for (const [first, last] of TABLE.ranges) {
    let from = first;
    for (const code of exceptions.filter((code) => code >= first && code <= last).sort(ascending)) {
      if (code > from) set += range(from, code - 1);
      from = code + 1;
    }
    if (from <= last) set += range(from, last);
  }
  return new RegExp(`[${set}]`, "gu");
}

/**
 * @param {number} first
 * @param {number} last
 */
function range(first, last) {
  return `\\u{${first.toString(16)}}-\\u{${last.toString(16)}}`;
}

/**
 * @param {number} one
 * @param {number} other
 */
function ascending(one, other) {
  return one - other;
}

// Elements without markup: what is shown goes into text nodes and attributes, and is made visible
// first. There is no way here to turn a text into an element or into code.

/**
 * The attributes of an element, and its `text`. `true` is an attribute without a value.
 * @typedef {{ text?: string, [attribute: string]: string | number | true | undefined }} Making
 */

/**
 * Make an element. Its text and its attributes are made visible.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Making} [making]
 * @param {(Node | string)[]} children strings are made visible too
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, { text, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    setAttribute(element, name, value === true ? "" : String(value));
  }
  if (text !== undefined) element.append(visible(text));
  for (const child of children) {
    element.append(typeof child === "string" ? visible(child) : child);
  }
  return element;
}

/**
 * Set an attribute, whose value is made visible.
 * @param {Element} element
 * @param {string} name
 * @param {string} value
 */
export function setAttribute(element, name, value) {
  if (/^on|^style$|^srcdoc$/i.test(name)) throw new TypeError(`not an attribute to set: ${name}`);
  element.setAttribute(name, visibleLine(value));
}

/**
 * Set a text that is visible already, if it is another one: what stays as it is costs nothing, and
 * a selection in it stays.
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Makes a button. While it has no effect it is `aria-disabled` and not `disabled`, so that it keeps
 * the focus. @param {string} text @param {string} looks class names @param {() => void} press */
export function button(text, looks, press) {
  const element = make("button", { type: "button", class: `act ${looks}`.trim(), text });
  element.addEventListener("click", () => {
    if (element.ariaDisabled !== "true") press();
  });
  return element;
}

// Controls of the page.

/** Copy a text, and let a button report that for a moment.
 * @param {HTMLElement} button @param {string} text */
export async function copyText(button, text) {
  const before = button.textContent;
  const copying = navigator.clipboard.writeText(text);
  button.textContent = await copying.then(() => "Copied", () => "Couldn't copy");
  setTimeout(() => (button.textContent = before), 1500);
}

/** An icon of index.html. @param {string} name */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "icon");
  svg.ariaHidden = "true";
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/**
 * Put a field in the place of a title until Enter, Escape, or until it loses the focus.
 *
 * @param {HTMLElement} element what is hidden meanwhile
 * @param {string} title
 * @param {HTMLElement} back what has the focus afterwards
 * @param {(title: string) => void} save
 */
export function editTitle(element, title, back, save) {
  const field = make("input", { class: "field title-field", "aria-label": "Title", maxlength: 200 });
  field.value = title;
  let isOver = false;
  /** @param {boolean} isSaved */
  const end = (isSaved) => {
    if (isOver) return;
    isOver = true;
    const hadFocus = document.activeElement === field;
    const words = field.value.trim();
    field.remove();
    element.hidden = false;
    if (hadFocus) back.focus();
    if (isSaved && words !== "" && words !== title) save(words);
  };
  field.addEventListener("blur", () => end(true));
  field.addEventListener("keydown", (event) => {
    if (event.isComposing || !["Enter", "Escape"].includes(event.key)) return;
    event.preventDefault(); // Escape would close the drawer
    event.stopPropagation();
    end(event.key === "Enter");
  });
  element.hidden = true;
  element.after(field);
  field.select();
}

/** Pixels that an item of a menu takes at most. */
const ITEM_HEIGHT = 44;

/** `act` is missing if there is nothing to press.
 * @typedef {{ label: string, act?: () => void, isDanger?: boolean }} MenuItem */

/**
 * Make the menu that a button opens. The browser closes it on Escape and on a click elsewhere.
 *
 * @param {HTMLButtonElement} button
 * @param {() => MenuItem[]} items called each time it opens
 */
export function attachMenu(button, items) {
  const menu = make("div", { class: "menu", role: "menu", popover: "auto" });
  button.popoverTargetElement = menu;
  button.ariaHasPopup = "menu";
  button.ariaExpanded = "false";
  menu.addEventListener("beforetoggle", (event) => {
    const isOpen = /** @type {ToggleEvent} */ (event).newState === "open";
    button.ariaExpanded = String(isOpen);
    if (!isOpen) return;
    menu.replaceChildren(...items().map((item) => makeItem(item, menu)));
    const { top, bottom, right } = button.getBoundingClientRect();
    const fitsBelow = bottom + menu.childElementCount * ITEM_HEIGHT < innerHeight;
    menu.style.setProperty("top", fitsBelow ? `${bottom + 4}px` : "auto");
    menu.style.setProperty("bottom", fitsBelow ? "auto" : `${innerHeight - top + 4}px`);
    menu.style.setProperty("right", `${document.documentElement.clientWidth - right}px`);
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Tab") menu.hidePopover();
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    const all = /** @type {HTMLElement[]} */ ([...menu.children]);
    const at = all.findIndex((item) => item === document.activeElement);
    all.at((event.key === "ArrowDown" ? at + 1 : at - 1) % all.length)?.focus();
  });
  return menu;
}

/** @param {MenuItem} item @param {HTMLElement} menu */
function makeItem({ label, act, isDanger = false }, menu) {
  const item = make("button", { type: "button", class: "menu-item", role: "menuitem", text: label });
  item.classList.toggle("is-danger", isDanger);
  item.autofocus = true; // the first one has the focus when the menu opens
  if (act === undefined) item.ariaDisabled = "true";
  item.addEventListener("click", () => {
    menu.hidePopover(); // the button has the focus again
    act?.();
  });
  return item;
}

// How long a call has been in its state, by the clock of this machine. The times of events are the
// server's: its clock may differ, and in a replay they are in the past. So the time in a state
// starts when it was first seen here, and a finished call only uses times of the server.

/** @type {WeakMap<Call, Map<string, number>>} */
const seen = new WeakMap();

/** Returns the seconds since this call was first seen in its state. @param {Call} call */
export function secondsInState(call) {
  let states = seen.get(call);
  if (!states) seen.set(call, (states = new Map()));
  const now = performance.now() / 1000;
  const since = states.get(call.state);
  if (since === undefined) states.set(call.state, now);
  return since === undefined ? 0 : now - since;
}

/** Returns the seconds that are left to decide on a call, or null without a limit.
 * @param {Call} call */
export function secondsLeft(call) {
  const until = call.request?.expires_at ?? null;
  if (until === null) return null;
  // If the time of the request is known, both are the server's, and its clock does not matter.
  if (call.requestedAt !== null) return until - call.requestedAt - secondsInState(call);
  return until - Date.now() / 1000;
}

// Right-to-left letters in lines that run from the left. A browser would move the numbers and signs
// behind them, so that "1 > 2" looks like "2 < 1". Here each run of such letters, with the spaces
// between them, is isolated, and everything else keeps its order.

// Letters that run from the right, or that reorder their neighbours as Arabic numbers do.
const RIGHT = "\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufefe"
  + "\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}";
const NUMBERS = "\\u0600-\\u0605\\u0660-\\u0669\\u066b\\u066c\\u06dd\\u06f0-\\u06f9\\u0890\\u0891"
  + "\\u08e2\\u{10d30}-\\u{10d39}\\u{10d40}-\\u{10d49}\\u{10e60}-\\u{10e7e}";
const LETTER = `(?:(?![${NUMBERS}])[${RIGHT}])`;

const some = new RegExp(`[${RIGHT}]`, "u");
const runs = new RegExp(
  `([${NUMBERS}]\\p{M}*)+|${LETTER}(?:${LETTER}|\\p{M}|[ ]+(?=${LETTER}))*`, "gu",
);

/** Returns what to append for a text that is visible already.
 * @param {string} text @returns {(string | Node)[]} */
export function inOrder(text) {
  if (!some.test(text)) return [text];
  const parts = [];
  let at = 0;
  for (const { 0: run, index } of text.matchAll(runs)) {
    if (index > at) parts.push(text.slice(at, index));
    parts.push(island(run));
    at = index + run.length;
  }
  if (at < text.length) parts.push(text.slice(at));
  return parts;
}

/** Returns one node for a text that is visible already. @param {string} text @returns {Node} */
export function inOneNode(text) {
  if (!some.test(text)) return document.createTextNode(text);
  const whole = document.createElement("span");
  addInOrder(whole, text);
  return whole;
}

/** Appends a text that is visible already. @param {Element} element @param {string} text */
export function addInOrder(element, text) {
  for (const part of inOrder(text)) element.append(part);
}

/** @param {string} run */
function island(run) {
  const element = document.createElement("span");
  element.className = "from-right";
  element.append(run);
  return element;
}

// Where in an order something begins, by halving.

/**
 * Give the first index from which on something holds, or the length if it holds for none.
 * @template Item
 * @param {readonly Item[]} items for which it does not hold, and then those for which it does
 * @param {(item: Item) => boolean} holds
 */
export function firstIndex(items, holds) {
  let [low, high] = [0, items.length];
  while (low < high) {
    const half = (low + high) >> 1;
    if (holds(/** @type {Item} */ (items[half]))) high = half;
    else low = half + 1;
  }
  return low;
}

/** Copies rows of a view as their text: a line in several rows stays one line. A browser would put a
 * newline between any two rows. @param {HTMLElement} element */
export function copyAsText(element) {
  element.addEventListener("copy", (event) => {
    const range = selectedRange(element);
    if (range === null || event.clipboardData === null) return; // the browser's own way
    event.clipboardData.setData("text/plain", range.cloneContents().textContent ?? "");
    event.preventDefault();
  });
}

/** Returns what is selected, if all of it is in an element. @param {HTMLElement} element */
export function selectedRange(element) {
  // In Chromium, a shadow root has a selection of its own; elsewhere there is one for all.
  const root = /** @type {{ getSelection?: () => Selection | null }} */ (element.getRootNode());
  const selection = root.getSelection?.() ?? document.getSelection();
  if (!selection || selection.isCollapsed || selection.rangeCount !== 1) return null;
  const range = selection.getRangeAt(0);
  return element.contains(range.commonAncestorContainer) ? range : null;
}

// Numbers, sizes, durations and paths in words. Nothing the model wrote comes through unless it is
// said so.

const numbers = new Intl.NumberFormat("en");

/**
 * A number with its noun: "1 line", "1,204 lines".
 * @param {number} count
 * @param {string} noun
 */
export function countOf(count, noun) {
  return `${numbers.format(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/**
 * A duration: tenths as long as they can be followed, then seconds, then minutes.
 * @param {number} seconds
 * @param {number} [digits] of the first ten seconds
 */
export function durationWords(seconds, digits = 1) {
  // A clock that was set back must not show a negative time.
  const known = Math.max(0, seconds);
  if (known < 9.95) return `${known.toFixed(digits)} s`;
  const whole = Math.round(known);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${twoDigits(whole % 60)} s`;
  return `${numbers.format(Math.floor(minutes / 60))} h ${twoDigits(minutes % 60)} min`;
}

/** @param {number} number */
function twoDigits(number) {
  return String(number).padStart(2, "0");
}

/**
 * Where in the arguments something is: `files[2].path`. Keys that are no plain words are quoted,
 * so that "a.b" cannot pass for b in a; argstream/terminal/waterfall does the same. The keys are
 * the model's: show them by `visibleLine`.
 * @param {readonly (string | number)[]} path
 */
export function pathWords(path) {
  let words = "";
  for (const step of path) {
    if (typeof step === "number") words += `[${step}]`;
    else if (/^[\p{L}\p{N}_-]+$/u.test(step)) words += words ? `.${step}` : step;
    else words += `[${JSON.stringify(step)}]`;
  }
  return words;
}

/**
 * Times in words: when something was, by the calendar or since a run began, and how long it took.
 *
 * How long calls take is in ../tool-call/words.js, for who follows it; here it is for who compares.
 */

const CLOCK_FROM = 120; // seconds from which minutes are easier to read
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const dayAndTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/**
 * Return how long ago something was, in few characters.
 *
 * @param {number} then in seconds since 1970
 * @param {number} now
 */
export function ago(then, now = Date.now() / 1000) {
  const seconds = now - then;
  if (seconds < 45) return "now";
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h`;
  return day.format(then * 1000);
}

/** @param {number} then in seconds since 1970 */
export function exactly(then) {
  return dayAndTime.format(then * 1000);
}

/**
 * Say how long something takes, as shortly as it still tells something.
 *
 * @param {number} seconds
 * @returns {string}
 */
export function duration(seconds) {
  const length = Math.max(0, seconds);
  if (length < 0.0995) {
    const milliseconds = length * 1000;
    const isTiny = milliseconds >= 0.05 && milliseconds < 0.95;
    return `${milliseconds.toFixed(isTiny ? 1 : 0)} ms`;
  }
  if (length < 59.95) return `${length.toFixed(1)} s`;
  const whole = Math.round(length);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor(minutes / 60) % 24} h`;
}

/**
 * Say when something was, since the run began.
 *
 * @param {number} seconds
 * @param {{digits?: number, longest?: number}} [options] longest: of the times it stands among,
 *   which are written alike
 */
export function moment(seconds, { digits = 2, longest = seconds } = {}) {
  return longest < CLOCK_FROM ? `${seconds.toFixed(digits)} s` : clock(seconds, digits);
}

/**
 * Write a time as a clock does: minutes and seconds, and hours if there are any.
 *
 * @param {number} time in seconds
 * @param {number} [digits] of a second
 * @returns {string}
 */
export function clock(time, digits = 0) {
  const whole = Number(time.toFixed(digits));
  const minutes = Math.floor(whole / 60);
  const rest = (whole - minutes * 60).toFixed(digits).padStart(digits > 0 ? digits + 3 : 2, "0");
  const hours = Math.floor(minutes / 60);
  if (hours === 0) return `${minutes}:${rest}`;
  return `${hours}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
}

// Work for the screen, in slices: whatever comes, a frame spends no more than its budget on it, so
// that the page stays smooth, and what is left goes on in the next frame.
//
// A tab that is not seen has no frames. A timer steps in there, and as nothing has to be smooth, it
// may take longer.

const BUDGET = 4; // milliseconds of a frame, for all tasks together: the layout takes four times as long
const LEAST = 2; // and where the layout of what they have done takes longer than SMOOTH
const SMOOTH = 12; // milliseconds of a frame for the tasks and the layout
const HIDDEN_BUDGET = 40; // where no frames are drawn, and timers are rare
const PATIENCE = 250; // milliseconds after which a frame is not waited for any longer

/**
 * A piece of work. It gets a function that says whether there is time left, and returns whether it
 * is done; if it is not, it is called again in the next frame.
 * @typedef {(hasTime: () => boolean) => boolean} Task
 */

/** @type {Set<Task>} */
const tasks = new Set();
/** @type {Set<() => void>} */
const endings = new Set();
let budget = BUDGET;
let frame = 0;
let timer = 0;

/**
 * Do a task in the next frames. A task that waits already is not done twice.
 * @param {Task} task
 */
export function paint(task) {
  tasks.add(task);
  schedule();
}

/**
 * Do something once at the end of the next frame's work, for instance what depends on the layout,
 * which is then computed once for all.
 * @param {() => void} ending
 */
export function afterPainting(ending) {
  endings.add(ending);
  schedule();
}

function schedule() {
  if (timer) return;
  if (!document.hidden) frame = requestAnimationFrame(run);
  timer = setTimeout(run, document.hidden ? 0 : PATIENCE);
}

function run() {
  cancelAnimationFrame(frame);
  clearTimeout(timer);
  frame = timer = 0;
  const begun = performance.now();
  const end = begun + (document.hidden ? HIDDEN_BUDGET : budget);
  const waiting = [...tasks];
  for (const [index, task] of waiting.entries()) {
    if (index > 0 && performance.now() > end) break; // they are the first in the next frame
    // Each gets its share of the time, at least a little; who needs less leaves more to the others.
    const left = Math.max(1, end - performance.now());
    const until = performance.now() + left / (waiting.length - index);
    tasks.delete(task); // before it runs, since it may ask for itself again
    if (!guarded(() => task(() => performance.now() < until), true)) tasks.add(task);
  }
  const last = [...endings];
  endings.clear();
  for (const ending of last) guarded(ending, undefined);
  // The endings have waited for the layout, so it is known what the frame costs.
  const isMuch = performance.now() - begun > SMOOTH;
  budget = isMuch ? Math.max(LEAST, budget / 2) : Math.min(BUDGET, budget + 1);
  if (tasks.size || endings.size) schedule();
}

/**
 * Call somebody's work; that it fails is reported, and does not keep others from theirs.
 * @template Result
 * @param {() => Result} work
 * @param {Result} otherwise
 */
function guarded(work, otherwise) {
  try {
    return work();
  } catch (error) {
    reportError(error);
    return otherwise;
  }
}

const NEAR = 24; // pixels from the end at which following starts again

/** Keeps a scroll area at its end while it grows, unless a user has scrolled away. */
export class TailFollower {
  /** @param {HTMLElement} element the scroll area */
  constructor(element) {
    this.#element = element;
    element.addEventListener("scroll", () => this.#scrolled(), { passive: true });
  }

  isFollowing = true;
  #element;
  #top = 0;

  /** Tells that there is more; the area scrolls at the end of the frame's work. */
  grown() {
    if (this.isFollowing) afterPainting(this.#toEnd);
  }

  #toEnd = () => {
    if (!this.isFollowing) return;
    this.#element.scrollTop = this.#element.scrollHeight;
    this.#top = this.#element.scrollTop;
  };

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#element;
    const rest = scrollHeight - clientHeight - scrollTop;
    // A pixel up is enough to stop: the first step of a smooth scroll is not larger.
    if (scrollTop < this.#top - 0.5) this.isFollowing = rest < 1;
    else if (scrollTop > this.#top) this.isFollowing ||= rest < NEAR;
    this.#top = scrollTop;
  }
}

// A long list in chunks. The layout skips those that are out of sight, so adding an element takes
// the same time, however long the list is. After the first ones, chunks are in volumes, which are
// skipped as well: otherwise very many chunks would take time.
//
// The chunk that grows and the one before it are always laid out: they may be in sight, and content
// would move if the layout began to skip it. Volumes may be skipped from the start.

const MOST = 50; // elements of a chunk, and chunks of a volume

/** @type {IntersectionObserver | undefined} */
let observer;

/**
 * Lets the layout skip a chunk once it is out of sight. If that began while it is visible, browsers
 * would count it as a shift of the layout.
 * @param {Element} chunk
 */
function skipWhenOut(chunk) {
  observer ??= new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) continue;
      observer?.unobserve(target);
      target.classList.add("full");
    }
  });
  observer.observe(chunk);
}

export class Chunks {
  /**
   * @param {HTMLElement} element the list
   * @param {(chunk: HTMLElement) => number} height how many lines on the screen a chunk
   *   takes, about
   */
  constructor(element, height) {
    this.#element = element;
    this.#height = height;
    this.#volume = element; // most lists are short, and need no volume
    this.last = this.#add();
  }

  #element;
  #height;
  #volume;
  /** @type {HTMLElement | null} */
  #complete = null; // the chunk before the last
  /** How many lines chunks that may be skipped take, and volumes for these. */
  /** @type {WeakMap<HTMLElement, number>} */
  #lines = new WeakMap();

  /** How many elements the last chunk may have. */
  get size() {
    return MOST;
  }

  /** Begins a further chunk. Returns the one that the layout may skip from now on, or null. */
  begin() {
    const closed = this.#complete;
    if (closed !== null) this.#close(closed);
    if (this.#volume.childElementCount >= MOST) {
      this.#volume = make("div", { class: "volume full" });
      this.#element.append(this.#volume);
    }
    this.#complete = this.last;
    this.last = this.#add();
    return closed;
  }

  /** Moves the first elements of a chunk that has become too large into chunks of their own.
   * @param {HTMLElement} chunk @param {Element[]} elements */
  cut(chunk, elements) {
    for (let at = 0; at < elements.length; at += MOST) {
      const part = make("div", { class: "chunk" });
      part.append(...elements.slice(at, at + MOST));
      chunk.before(part);
      this.#close(part);
    }
    if (chunk !== this.last && chunk !== this.#complete) this.#close(chunk);
  }

  #add() {
    const chunk = make("div", { class: "chunk" });
    this.#volume.append(chunk);
    return chunk;
  }

  /** Lets the layout skip a chunk while it is out of sight, with an estimate of its height.
   * @param {HTMLElement} chunk */
  #close(chunk) {
    skipWhenOut(chunk);
    const more = this.#height(chunk) - (this.#lines.get(chunk) ?? 0);
    this.#heighten(chunk, more);
    const volume = chunk.parentElement;
    if (volume !== null && volume !== this.#element) this.#heighten(volume, more);
  }

  /**
   * @param {HTMLElement} element
   * @param {number} more lines
   */
  #heighten(element, more) {
    const lines = (this.#lines.get(element) ?? 0) + more;
    this.#lines.set(element, lines);
    // Not by a property of our own: those are inherited, and all that is in it would be looked at.
    element.style.setProperty("contain-intrinsic-height", `auto ${1.5 * lines}em`);
  }
}

/**
 * Elements that follow each other, in chunks: the layout skips what is out of sight, so that what
 * is added costs the same, however much stands before it. BlockChunks stand in volumes, which are
 * skipped alike: or very many chunks would take their time too.
 *
 * The last two are always laid out: what is seen would move if that ended, and what is short has
 * its true height.
 */

const MOST_BLOCKS = 50; // elements of a chunk, and chunks of a volume
const HIGH = 150; // lines at which a chunk is full too
const WIDTH = 80; // characters of a line, about

/** One that is filled. */
class Filling {
  /**
   * @param {"div" | "span"} tag
   * @param {string} name
   * @param {number} high lines at which it is full
   */
  constructor(tag, name, high) {
    this.#tag = tag;
    this.#name = name;
    this.#high = high;
    this.element = this.#make();
  }

  #tag;
  #name;
  #high;
  /** The one before it. */
  /** @type {HTMLElement | null} */
  #before = null;
  #linesBefore = 0;
  lines = 0;

  get isFull() {
    return this.element.childElementCount >= MOST_BLOCKS || this.lines >= this.#high;
  }

  /** Go on with another one. The last but one is left alone from then on. */
  next() {
    if (this.#before !== null) {
      this.#before.style.setProperty("--lines", String(Math.ceil(this.#linesBefore)));
      skipWhenOut(this.#before);
    }
    this.#before = this.element;
    this.#linesBefore = this.lines;
    this.lines = 0;
    this.element = this.#make();
  }

  #make() {
    return make(this.#tag, { class: this.#name });
  }
}

export class BlockChunks {
  /**
   * @param {HTMLElement} element that holds them
   * @param {"div" | "span"} [tag]
   */
  constructor(element, tag = "div") {
    this.#element = element;
    this.#volume = new Filling(tag, "volume", Infinity);
    this.#chunk = new Filling(tag, "chunk", HIGH);
    this.#volume.element.append(this.last);
    element.append(this.#volume.element);
  }

  #element;
  #volume;
  #chunk;

  /** The last chunk. */
  get last() {
    return this.#chunk.element;
  }

  /**
   * Put an element behind the others.
   *
   * @param {Element} child
   */
  append(child) {
    if (this.#chunk.isFull) {
      if (this.#volume.isFull) {
        this.#volume.next();
        this.#element.append(this.#volume.element);
      }
      this.#chunk.next();
      this.#volume.element.append(this.last);
    }
    this.last.append(child);
  }

  /**
   * Say that the last chunk has become so much higher.
   *
   * @param {number} lines
   */
  weigh(lines) {
    this.#chunk.lines += lines;
    this.#volume.lines += lines;
  }
}

/**
 * Guess how many lines a text takes.
 *
 * @param {string} text without newlines
 */
export function linesOf(text) {
  return Math.ceil(text.length / WIDTH);
}

/**
 * The fixed parts of the page, by their ids in index.html; one that is missing is found at once.
 */

/**
 * @template {HTMLElement} Kind
 * @param {string} id
 * @param {{ new (): Kind }} kind
 * @returns {Kind}
 */
export function part(id, kind) {
  const element = document.getElementById(id);
  if (!(element instanceof kind)) throw new Error(`the page has no ${id}`);
  return element;
}

/**
 * Small things kept in the browser; where a browser lets pages keep nothing, they last as long as
 * the page does.
 */

/** @typedef {"localStorage" | "sessionStorage"} Where */

/**
 * @param {Where} where for good, or as long as the tab is open
 * @param {string} key
 * @param {string} value "" is none
 */
export function keep(where, key, value) {
  try {
    if (value === "") window[where].removeItem(key);
    else window[where].setItem(key, value);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error; // storage is off, or full
  }
}

/**
 * @param {Where} where
 * @param {string} key
 * @returns {string}
 */
export function kept(where, key) {
  try {
    return window[where].getItem(key) ?? "";
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    return "";
  }
}

/**
 * The words of the page for how a run stands and what went wrong: the same wherever they are shown.
 */

const STATUSES = new Map([
  ["running", "Running"],
  ["paused", "Needs approval"],
  ["completed", "Done"],
  ["failed", "Failed"],
  ["stopped", "Stopped"],
  ["disconnected", "Disconnected"],
]);

/** @param {string} status */
export function statusWords(status) {
  return STATUSES.get(status) ?? "";
}

/** @param {string} status */
export function isRunOver(status) {
  return status === "completed" || status === "failed" || status === "stopped";
}

/**
 * Join names: "one", "one and two", "one, two and three".
 *
 * @param {readonly string[]} names
 */
export function listed(names) {
  if (names.length < 2) return names.join("");
  return `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

/**
 * Say what went wrong; never nothing, and never a stack.
 *
 * @param {unknown} problem
 */
export function problemWords(problem) {
  const words = problem instanceof Error ? problem.message : String(problem);
  return sentence(words || "Something went wrong. Reload the page, or check the server log.");
}

/**
 * Say whether what was asked for is not on the server.
 *
 * @param {unknown} problem
 */
export function isMissing(problem) {
  return problem instanceof ServerProblem && (problem.status === 404 || problem.status === 410);
}

/** @param {string} words */
export function sentence(words) {
  const [first = ""] = words;
  const begun = first.toUpperCase() + words.slice(first.length);
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}

/**
 * Reading the log of a run that may be long: the page stays alive meanwhile, and who has lost
 * interest stops it.
 */

/** @typedef {Pick<Client, "log">} LogClient */

const SLICE = 8; // milliseconds

/**
 * Read a log to what is now its end.
 *
 * @param {LogClient} client
 * @param {string} runId
 * @param {(frame: EventFrame) => void} take
 * @param {() => boolean} isWanted
 * @returns {Promise<boolean>} whether it was read to its end
 */
export async function readLog(client, runId, take, isWanted) {
  let until = performance.now() + SLICE;
  for await (const frame of client.log(runId)) {
    if (!isWanted()) return false;
    take(frame);
    if (performance.now() < until) continue;
    await othersHadTheirTurn();
    until = performance.now() + SLICE;
  }
  return isWanted();
}

/** @returns {Promise<void>} */
function othersHadTheirTurn() {
  return new Promise((resolve) => setTimeout(resolve));
}
